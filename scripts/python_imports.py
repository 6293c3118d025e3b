"""Finds the files that a Python file of python/ imports."""

import ast


def imports_of(tree, file):
    """Yields (line, name, file) of every import of a package of python/, wherever it is: at the top, in a function or under
    TYPE_CHECKING. The file is None if it does not exist. Imports of other packages are left out.

    `from package import name` names package/name.py if that exists, otherwise the package's __init__.py, because the name is
    defined or passed on there. The __init__.py files of the packages above an imported module run first, but are not imports.
    """
    root = tree / "python"
    for node in ast.walk(ast.parse(file.read_bytes(), file.name)):
        if isinstance(node, ast.Import):
            names = {alias.name: find(root, alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = base_of(root, file, node)
            found = {f"{base}.{alias.name}": find(root, f"{base}.{alias.name}") for alias in node.names}
            names = {name if path else base: path or find(root, base) for name, path in found.items()}
        else:
            continue
        for name, path in names.items():
            if (root / name.split(".")[0] / "__init__.py").is_file():
                yield node.lineno, name, path and path.relative_to(tree).as_posix()


def base_of(root, file, node):
    """Returns the absolute name of X in `from X import …`."""
    if node.level == 0:
        return node.module
    parents = file.relative_to(root).parts[:-1]
    return ".".join([*parents[: len(parents) + 1 - node.level], *([node.module] if node.module else [])])


def find(root, name):
    """Returns the file of a module, or None."""
    path = root.joinpath(*name.split("."))
    return next((each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()), None)
