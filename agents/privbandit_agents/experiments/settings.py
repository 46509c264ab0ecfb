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


NUMBERS = {
    "int": r"^[-+]?(\d+|0x[0-9a-fA-F]+|0o[0-7]+)$",
    "float": r"^[-+]?((\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][-+]?\d+)?|\.(inf|Inf|INF))$|^\.(nan|NaN|NAN)$",
}
Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] not in (*NUMBERS, "timestamp")]
    for first, resolvers in Loader.yaml_implicit_resolvers.items()
}
for _name, _pattern in NUMBERS.items():
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(_pattern), list("-+.0123456789"))


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
    except RecursionError:
        raise ValueError("it is nested too deep, or in itself.") from None
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {' '.join(str(error).split())}.") from None
