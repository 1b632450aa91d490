"""Validates every example of the document against its schema."""

import json
import sys

from jsonschema import Draft202012Validator

document = json.load(open(sys.argv[1], encoding="utf-8"))
checked = 0


def check(name, schema, example):
    """Exits with the place of an invalid example."""
    global checked
    checked += 1
    errors = list(Draft202012Validator({**schema, "components": document["components"]}).iter_errors(example))
    if errors:
        sys.exit(f"the example of {name} is invalid: {errors[0].message}")


def walk(name, schema):
    """Checks the examples of a schema and of the schemas in it."""
    if isinstance(schema, dict):
        if isinstance(schema.get("examples"), list):
            for example in schema["examples"]:
                check(name, schema, example)
        for key, value in schema.items():
            walk(f"{name}/{key}", value)
    elif isinstance(schema, list):
        for i, value in enumerate(schema):
            walk(f"{name}/{i}", value)


walk("schemas", document["components"]["schemas"])
for path, methods in document["paths"].items():
    for method, operation in methods.items():
        for content in operation.get("requestBody", {}).get("content", {}).values():
            check(f"{method} {path}", content["schema"], content["example"])
if checked < 30:
    sys.exit(f"only {checked} examples were found")
