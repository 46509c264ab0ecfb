"""YAML 1.2 as people write it: ``1e-3`` is a number, ``1:30`` and dates are text, a repeated key is a mistake."""

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from string import Template
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import ConstructorError, DuplicateKeyError, SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

from privbandit_agents.experiments.names import bare
from privbandit_agents.experiments.usage import UsageError
from privbandit_envs.files import regular
from privbandit_envs.validate import did_you_mean

MOST = 1_000_000
"""Characters of the longest YAML that is read, and values that its aliases may stand for."""


class Constructor(SafeConstructor):
    """Leaves dates as they are written; names the line of a value that does not fit its tag.

    With aliases and merges a few lines can stand for more values than any memory holds: they are counted before.
    """

    def construct_document(self, node: Any) -> Any:
        if size(node, {}) > MOST:
            raise YAMLError(f"its aliases stand for more than {MOST:,} values")
        return super().construct_document(node)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (AttributeError, LookupError, OverflowError, TypeError, ValueError):
            problem = f"{str(node.value)[:50]!r} is not of the kind {node.tag.rpartition(':')[2]!r}"
            raise ConstructorError(None, None, problem, node.start_mark) from None

    def check_mapping_key(self, node: Any, key_node: Any, mapping: Any, key: Any, value: Any) -> bool:
        try:
            return bool(super().check_mapping_key(node, key_node, mapping, key, value))
        except TypeError:
            raise ConstructorError(None, None, "a key must be a plain value", key_node.start_mark) from None


def number(reader: SafeConstructor, node: Any) -> float:
    """Return a number with a point or an exponent; one such as 1e4 is whole, wherever a whole number is needed."""
    value = float(SafeConstructor.construct_yaml_float(reader, node))
    whole = "e" in str(node.value).lower() and value.is_integer() and abs(value) < 2**53
    return int(value) if whole else value


Constructor.add_constructor("tag:yaml.org,2002:float", number)
Constructor.add_constructor("tag:yaml.org,2002:timestamp", SafeConstructor.construct_yaml_str)


def from_yaml(text: str) -> Any:
    """Parse a YAML text: a scalar, a list or a whole file.

    Raises:
        ValueError: it is not YAML; the message is one sentence with the line.
    """
    reader = YAML(typ="safe", pure=True)
    reader.Constructor = Constructor
    try:
        if len(text) > MOST:
            raise ValueError(f"it has more than {MOST:,} characters.")
        return reader.load(text)
    except MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        problem = str(error.problem).replace("found unhashable key", "a key must be a plain value")
        if isinstance(error, DuplicateKeyError):
            key = problem.partition('"')[2].partition('"')[0]
            problem = f"key {key!r} is given twice"
        raise ValueError(f"{problem}{line}.") from None
    except RecursionError:
        raise ValueError("it is nested too deep, or in itself.") from None
    except YAMLError as error:
        raise ValueError(f"not YAML: {' '.join(str(error).split())}.") from None


def size(node: Node, known: dict[int, int]) -> int:
    """Return how many values a node has, written out; an alias, which is one node many times, is looked at once.

    Raises:
        RecursionError: it is in itself.
    """
    if isinstance(node, ScalarNode):
        return 1
    if id(node) not in known:
        known[id(node)] = -1
        inner = chain.from_iterable(node.value) if isinstance(node, MappingNode) else node.value
        known[id(node)] = 1 + sum(size(value, known) for value in inner)
    if known[id(node)] < 0:
        raise RecursionError
    return known[id(node)]


def content_of(path: Path) -> Any:
    """Return the content of a YAML file.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        with regular(path, 4 * MOST) as file:
            return from_yaml(file.read().decode())
    except FileNotFoundError:
        raise UsageError(f"no file {str(path)!r}; give the path of a YAML file.") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path.name} cannot be read: {error}") from None


def filled(content: object, values: Mapping[str, Any]) -> Any:
    """Return content with values in place of ``$name``: a text that is one name becomes the value itself.

    Raises:
        ValueError: an unknown name; the message has the nearest one.
    """
    if isinstance(content, Mapping):
        return {key: filled(inner, values) for key, inner in content.items()}
    if isinstance(content, list):
        return [filled(inner, values) for inner in content]
    if not isinstance(content, str) or "$" not in content:
        return content
    try:
        if content[1:] in values and content[0] == "$":
            return values[content[1:]]
        return Template(content).substitute({key: bare(value) for key, value in values.items()})
    except KeyError as error:
        name = str(error.args[0])
        known = ", ".join(f"${key}" for key in values)
        raise ValueError(f"there is no value for ${name}{did_you_mean(name, values)}; there is {known}.") from None
