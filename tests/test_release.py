"""What is said of a release agrees with itself."""

import re
import shlex
import subprocess
import sys
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import privbandit_agents
import yaml
from privbandit_agents.cli.grammar import parsed

import privbandit_envs

ROOT = Path(__file__).parents[1]
MADE = {"build", "dist", "site", "runs", ".hypothesis", "PKG-INFO", "__pycache__"}


def test_there_is_one_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    released = re.search(r"^## \[(\d[^]]*)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert released is not None
    assert privbandit_envs.__version__ == privbandit_agents.__version__ == citation["version"] == released[1]
    assert str(citation["date-released"]) == released[2]


def test_every_extra_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text().lower().replace("_", "-").splitlines()
    wanted = re.findall(r'"([A-Za-z][\w-]*)(?:\[\w+\])?>=', (ROOT / "pyproject.toml").read_text())
    unpinned = {name.lower() for name in wanted} - {line.split("==")[0] for line in lines}
    assert unpinned <= {"hatchling"}, unpinned


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_what_is_built_for_the_index_has_addresses_and_no_relative_links() -> None:
    spec = spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    hook = module_from_spec(spec)
    spec.loader.exec_module(hook)
    home = PROJECT["project"]["urls"]["Homepage"]
    text = hook.absolute((ROOT / "README.md").read_text(), home)
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert len(targets) > 20 and all(target.startswith(("https://", "#")) for target in targets)
    for target in targets:
        if target.startswith(f"{home}/"):
            assert (ROOT / re.sub(r"^/(raw|blob)/main/|#.*", "", target.removeprefix(home))).exists(), target
    assert hook.absolute("![a](b.png) [c](d.md) [e](https://f.org) [g](#h)", "https://x.org") == (
        "![a](https://x.org/raw/main/b.png) [c](https://x.org/blob/main/d.md) [e](https://f.org) [g](#h)"
    )


def test_the_source_archive_holds_what_its_commands_and_tests_read() -> None:
    inside = set(PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])
    tracked = {path.name for path in ROOT.iterdir()} - {".git", ".gitignore", "pyproject.toml"}
    made = {name for name in tracked if name.startswith(".venv") or name in MADE or name.endswith("_cache")}
    assert tracked - made - inside == set(), "these are missing in the source archive"


def test_all_is_everything_that_plays_runs_and_shows() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    (line,) = extras["all"]
    named = set(line.removeprefix("privbandit[").removesuffix("]").split(","))
    assert named < set(extras) and {"bench", "rl", "data"} <= named
    assert set(extras) - named == {"all", "browser", "clients", "dev", "docs", "notebooks", "peers", "service"}


def test_the_recipe_for_conda_says_what_pyproject_says() -> None:
    recipe = yaml.safe_load((ROOT / ".ci" / "conda" / "recipe.yaml").read_text())
    assert recipe["context"]["version"] == privbandit_envs.__version__
    run = {line.replace(" ", "") for line in recipe["requirements"]["run"]}
    assert run == {*PROJECT["project"]["dependencies"], f"python{PROJECT['project']['requires-python']}"}
    assert recipe["about"]["homepage"] == PROJECT["project"]["urls"]["Homepage"]


def test_workflows_and_hooks_can_be_read_and_call_what_is_there() -> None:
    verbs = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        workflow = yaml.safe_load(path.read_text())
        steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
        assert steps and all("uses" in step or "run" in step for step in steps)
        for step in steps:
            assert set(re.findall(r"make ([a-z-]+)", step.get("run", ""))) <= verbs
            assert all((ROOT / name).exists() for name in re.findall(r"(\.ci/\S+|tests/\S+)", step.get("run", "")))
    matrix = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["tests"]["strategy"]["matrix"][
        "python"
    ]
    said = " ".join(PROJECT["project"]["classifiers"])
    assert matrix[0] == PROJECT["project"]["requires-python"].removeprefix(">=") and matrix[-1] == "3.14"
    assert set(re.findall(r"3\.\d+", said)) <= set(matrix)
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line)
    for hook in local["hooks"]:
        assert ".venv" not in hook["entry"], "a hook works anywhere"
        assert hook.get("additional_dependencies", [f"ruff=={pins['ruff']}"]) == [f"ruff=={pins['ruff']}"]


def test_lowest_versions_are_read_from_pyproject() -> None:
    command = [sys.executable, str(ROOT / ".ci" / "lowest.py"), "bench"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "gymnasium==1.2" in lines and "numpy==2.1" in lines
    wanted = [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["bench"]]
    assert len(lines) == len(wanted)


CLUSTER = ROOT / "examples" / "cluster"


def test_the_files_for_clusters_are_sound() -> None:
    """YAML that Kubernetes reads, shell and Python that compile, and commands that exist."""
    kinds = {}
    for path in CLUSTER.glob("*.yaml"):
        for document in yaml.safe_load_all(path.read_text()):
            assert document["apiVersion"] and document["metadata"]["name"], path
            kinds[document["kind"]] = document
    assert kinds.keys() == {"DaskCluster", "PersistentVolumeClaim", "Job"}
    cluster, job = kinds["DaskCluster"], kinds["Job"]["spec"]["template"]["spec"]
    service = cluster["spec"]["scheduler"]["service"]
    (container,) = job["containers"]
    assert f"{cluster['metadata']['name']}-scheduler:{service['ports'][0]['port']}" in " ".join(container["args"])
    assert service["selector"]["dask.org/cluster-name"] == cluster["metadata"]["name"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in job["volumes"]}
    for part in (cluster["spec"]["worker"]["spec"], cluster["spec"]["scheduler"]["spec"], job):
        (inner,) = part["containers"]
        assert inner["image"].endswith(f":{privbandit_envs.__version__}") and inner["resources"]["requests"]
    page = (ROOT / "docs" / "cluster.md").read_text()
    shown = set(re.findall(r'^--8<-- "examples/cluster/(\S+)"$', page, flags=re.MULTILINE))
    assert shown == {path.name for path in CLUSTER.iterdir() if path.is_file()}, "the page shows every file"
    subprocess.run(["bash", "-n", str(CLUSTER / "shards.sh")], check=True)
    compile((CLUSTER / "slurm.py").read_text(), "slurm.py", "exec")
    for text in ((CLUSTER / "shards.sh").read_text(), " ".join(container["command"] + container["args"])):
        command = re.search(r"^privbandit (.*)$|^privbandit (.*)", text, flags=re.MULTILINE)
        assert command is not None
        words = shlex.split(
            command[0].replace('"$1"', "linear.yaml").replace('"$2"', "out").replace("$SLURM_ARRAY_TASK_ID", "3")
        )
        parsed(words[1], words[2:])
