"""``privbandit schema``: it proposes a schema, says which limits come from people's data, and checks a table by it."""

import json
from pathlib import Path

import pytest
from commanding import invoke


def written(folder: Path) -> None:
    rows = [f"{20 + row},{['mail', 'app'][row % 2]},{row % 3},{row % 2},0.5" for row in range(30)]
    (folder / "t.csv").write_text("\n".join(["age,channel,arm,click,propensity", *rows]) + "\n")


@pytest.mark.filterwarnings("always:column")
def test_a_schema_is_proposed_made_public_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    shown = invoke("schema", "t.csv", columns=120)
    assert shown.exit_code == 0, shown.stderr
    assert "column 'arm' has the role action by its name" in " ".join(shown.stderr.split())
    lines = {line.split()[0]: " ".join(line.split()) for line in shown.stdout.splitlines() if line[:1].isalpha()}
    assert lines["age"] == "age integer context 20 to 49 the data 1"
    assert lines["channel"] == "channel string context app, mail the data 3"
    assert lines["propensity"] == "propensity number propensity 0.5 to 0.5"
    assert "age, channel, arm, click are read from people's data" in " ".join(shown.stdout.split())
    # it is not written over
    again = invoke("schema", "t.csv")
    assert again.exit_code == 2 and "exists: `--schema" in again.stderr
    # public bounds, and a row that does not fit
    content = json.loads((tmp_path / "t.schema.json").read_text())
    for field in content["fields"]:
        field.setdefault("privbandit", {})["public"] = True
    (tmp_path / "t.schema.json").write_text(json.dumps(content))
    checked = invoke("schema", "t.csv", "--schema", "t.schema.json")
    assert checked.exit_code == 0 and "All 30 rows fit." in checked.stdout and "are public." in checked.stdout
    (tmp_path / "t.csv").write_text((tmp_path / "t.csv").read_text().replace("\n25,", "\nold,"))
    refused = invoke("schema", "t.csv", "--schema", "t.schema.json")
    assert refused.exit_code == 2 and "column 'age', row 5: 'old' is no finite integer" in refused.stderr
