"""How the documentation is built: `make docs`, without a network, into build/docs."""

import sys
from pathlib import Path

import deep_bench

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "deep_bench"
html_show_copyright = False
release = version = deep_bench.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_parser", "docstrings", "links", "mathml", "reference_pages"]
exclude_patterns = ["extensions", "reproducers"]
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

default_role = "py:obj"  # `name` in a docstring is a link where there is such a name, and code where there is none
autodoc_default_options = {"members": True, "show-inheritance": True, "ignore-module-all": True}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Source"]

html_theme = "furo"
html_title = "deep_bench"
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"top_of_page_buttons": []}
html_css_files = ["deep_bench.css"]
html_static_path = ["extensions/static"]
html_extra_path = ["record.schema.json"]
pygments_style = "tango"
