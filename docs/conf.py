"""How the documentation is built: `./run docs`, warnings as errors, nothing fetched while building."""

from importlib.metadata import version as version_of

project = "reliable-scheduler"
author = "The scheduler developers"
copyright = "The scheduler developers"
release = version = version_of("reliable-scheduler")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "decisions/template.md"]

myst_enable_extensions = ["deflist", "fieldlist"]
myst_heading_anchors = 3

default_role = "code"  # docstrings write `names` in single backticks
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "ignore-module-all": True, "undoc-members": True, "show-inheritance": True}
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"reliable-scheduler {release}"
html_show_copyright = False
# Annotations such as type[Backend] look like references to the field `type` of jobs.
suppress_warnings = ["ref.python"]
