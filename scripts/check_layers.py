#!/usr/bin/env python3
"""Checks that every #include follows the table of the architecture, layers.toml.

Fails on an include that the table does not allow, on a file in a folder that the table does not
know, on an include of ours that does not name the file from the include root, and on a table whose
layers could include each other in a circle.
"""

import pathlib
import tomllib

import lint_common as lint


class Table:
    """layers.toml, with groups expanded."""

    def __init__(self, text):
        data = tomllib.loads(text)
        groups = data.get("group", {})
        self.layers = {}
        for layer, rule in data["layer"].items():
            may = []
            for entry in rule["may"]:
                may += groups[entry[1:]] if entry.startswith("@") else [entry]
            self.layers[layer] = may

    def layer_of(self, path):
        """The longest layer that contains `path`, or is its unit; None if there is none."""
        for place in [path.with_suffix(""), *path.parents]:
            if place.as_posix() in self.layers:
                return place.as_posix()
        return None

    def allows(self, layer, included):
        if self.layer_of(included) == layer:
            return True
        for entry in self.layers[layer]:
            if entry.endswith("/*"):
                if included.parent.as_posix() == entry[:-2]:
                    return True
            elif entry == included.as_posix() or pathlib.Path(entry) in included.parents:
                return True
        return False

    def circle(self):
        """Layers that may include each other in a circle, or None."""
        edges = {layer: [other for other in self.layers
                         if other != layer and self.reaches(layer, other)]
                 for layer in self.layers}
        done, path = set(), []

        def visit(layer):
            if layer in path:
                return path[path.index(layer):] + [layer]
            if layer in done:
                return None
            path.append(layer)
            for other in edges[layer]:
                if found := visit(other):
                    return found
            done.add(path.pop())
            return None

        return next((found for layer in self.layers if (found := visit(layer))), None)

    def reaches(self, layer, other):
        """Whether `layer` may include some header of `other`."""
        for entry in self.layers[layer]:
            named = pathlib.Path(entry.removesuffix("/*"))
            if entry.endswith((".h", "/*")):
                owner = self.layer_of(named / "x.h" if entry.endswith("/*") else named)
                if owner == other:
                    return True
            elif named == pathlib.Path(other) or named in pathlib.Path(other).parents:
                return True
        return False


def is_for_tests(path, included):
    """Tests may use testing/; those of src/ also what their layer only sees an interface of."""
    return included.parts[0] == "testing" or (path.parts[0] == "src" and included.parts[0] == "src")


def check_file(root, table, path):
    layer = table.layer_of(path)
    if layer is None:
        yield f"{path}:1: folder is not in scripts/layers.toml"
        return
    is_test = path.stem.endswith(("_test", "_test_util"))
    for line, quoted, name in lint.includes(lint.read(root, path)):
        included = lint.resolve(root, name)
        if included is None:
            if quoted and (root / path.parent / name).is_file():
                yield f'{path}:{line}: include "{name}" by its path from the include root'
        elif is_test and is_for_tests(path, included):
            continue
        elif not table.allows(layer, included):
            yield f"{path}:{line}: {layer} may not include {included}"


def main():
    args = lint.parser(__doc__).parse_args()
    table = Table(lint.read(args.root, "scripts/layers.toml"))
    problems = []
    if circle := table.circle():
        problems.append("scripts/layers.toml:1: circle: " + " -> ".join(circle))
    for path in lint.code_files(args.root):
        problems += check_file(args.root, table, path)
    lint.finish(problems)


if __name__ == "__main__":
    main()
