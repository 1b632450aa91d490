"""Validates the objects in the documents for merchants against the schemas of the API: every field must exist, and
every required field must be shown. A value with `…` may be anything."""

import json
import re
import sys

from jsonschema import Draft202012Validator

document = json.load(open(sys.argv[1], encoding="utf-8"))
schemas = document["components"]["schemas"]
by_name = {}
for schema in schemas.values():
    for name in schema.get("properties", {}).get("object", {}).get("enum", []):
        if "deleted" not in schema["properties"]:
            by_name[name] = schema
by_name["error"] = schemas["ErrorResponse"]
checked = 0

for path in sys.argv[2:]:
    for example in re.findall(r"^```json\n(.*?)^```", open(path, encoding="utf-8").read(), re.M | re.S):
        shown = json.loads(example if example.startswith("{") else f"{{{example}}}")
        name = "error" if "error" in shown else shown.get("object")
        if name not in by_name or name == "list":
            continue
        checked += 1
        validator = Draft202012Validator({**by_name[name], "components": document["components"]})
        for error in validator.iter_errors(shown):
            if not (isinstance(error.instance, str) and "…" in error.instance):
                sys.exit(f"{path} shows an invalid {name}: {error.message}")
if checked < 15:
    sys.exit(f"only {checked} objects were found")
