"""YAML as people write it: ``1e-3`` is a number, and a key said twice is a mistake."""

import re
from typing import Any

import yaml


class Loader(yaml.SafeLoader):
    """PyYAML's safe loader, with the numbers of YAML 1.2 and without repeated keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse repeated keys, of which PyYAML would keep the last."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", node.start_mark)
        return super().construct_mapping(node, deep)


Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def from_yaml(text: str) -> Any:
    """Parse a YAML text: a scalar, a list or a whole file.

    Raises:
        ValueError: it is not YAML; the message is one sentence with the line.
    """
    try:
        return yaml.load(text, Loader)
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ValueError(f"{error.problem}{line}.") from None
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {' '.join(str(error).split())}.") from None
