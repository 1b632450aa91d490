"""Prints what Stripe's published Python library says about the requests and objects that our adapter uses.

Stripe generates that library from the description of its API. Usage: pip install stripe==13.2.1; python distill.py > api.json

A type is a name ("string", "integer", "boolean", "number", "object", "array"), a list of the possible strings, or one of
{"nullable": type}, {"any": [types]}, {"array": type}, {"object": kind} and {"expandable": kind}, which is the id of an
object of that kind, or the object itself. Lists of more than 30 strings are "string". Parameters are flattened as in
forms: expand[], created[gte], metadata[*].
"""

import ast
import json
import re
from pathlib import Path

import stripe

HOME = Path(stripe.__file__).parent
REQUESTS = {
    "POST /v1/payment_intents": "payment_intent_create", "GET /v1/payment_intents": "payment_intent_list",
    "GET /v1/payment_intents/{id}": "payment_intent_retrieve",
    "GET /v1/payment_intents/search": "payment_intent_search",
    "POST /v1/payment_intents/{id}/capture": "payment_intent_capture",
    "POST /v1/payment_intents/{id}/cancel": "payment_intent_cancel",
    "POST /v1/refunds": "refund_create", "GET /v1/refunds": "refund_list", "GET /v1/refunds/{id}": "refund_retrieve",
    "POST /v1/customers": "customer_create", "GET /v1/customers": "customer_list",
    "POST /v1/setup_intents": "setup_intent_create", "POST /v1/payment_methods": "payment_method_create",
    "GET /v1/disputes": "dispute_list", "GET /v1/disputes/{id}": "dispute_retrieve",
    "GET /v1/balance_transactions/{id}": "balance_transaction_retrieve", "GET /v1/charges": "charge_list",
    "GET /v1/payment_methods": "payment_method_list",
    "GET /v1/balance_transactions": "balance_transaction_list", "GET /v1/account": "account_retrieve_current",
}
OBJECTS = ["account", "balance_transaction", "charge", "customer", "dispute", "event", "payment_intent", "payment_method",
           "refund", "setup_intent"]
NAMES = {"str": "string", "int": "integer", "bool": "boolean", "float": "number"}
NESTED = re.compile(r"^(created|card)$")


def snake(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def classes(path):
    return {node.name: node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)}


def fields(node):
    own = [part for part in node.body if isinstance(part, ast.AnnAssign)]
    return {part.target.id: part.annotation for part in own if not part.target.id.startswith("_") and part.target.id != "OBJECT_NAME"}


def type_of(node):
    """The type of an annotation."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return type_of(ast.parse(node.value, mode="eval").body)
    if isinstance(node, ast.BinOp):
        return union([node.left, node.right])
    if isinstance(node, ast.Name):
        return NAMES.get(node.id) or ({"object": snake(node.id)} if snake(node.id) in OBJECTS else "object")
    if not isinstance(node, ast.Subscript):
        return "object"
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    kind = node.value.id
    if kind == "Literal":
        values = [part.value for part in inner]
        if not isinstance(values[0], str):
            return "boolean"
        return values if len(values) <= 30 else "string"
    if kind == "Optional":
        return {"nullable": type_of(inner[0])}
    if kind == "Union":
        return union(inner)
    if kind == "List":
        return {"array": type_of(inner[0])}
    if kind == "ExpandableField":
        return {"expandable": snake(re.search(r"\w+", ast.unparse(inner[0])).group())}
    return type_of(inner[0]) if kind == "NotRequired" else "object"


def union(parts):
    """Alternatives, without the string that stands for values of later versions."""
    types = [type_of(part) for part in parts]
    if any(isinstance(one, list) and one != [""] for one in types):
        types = [one for one in types if one != "string"]
    return types[0] if len(types) == 1 else {"any": types}


def flattened(prefix, annotation, known):
    """The parameters of one field."""
    text, kind = ast.unparse(annotation), type_of(annotation)
    if re.search(r"Dict\[str", text):
        return {f"{prefix}[*]": "string"}
    if isinstance(kind, dict) and "array" in kind:
        return {f"{prefix}[]": kind["array"]}
    nested = [known[name] for name in re.findall(r"\w+", text) if name in known]
    if nested and NESTED.match(prefix):
        return {f"{prefix}[{name}]": type_of(inner) for name, inner in fields(nested[0]).items()}
    return {prefix: kind}


def request(name):
    known = classes(HOME / "params" / f"_{name}_params.py")
    top = next(node for known_name, node in known.items() if known_name.lower() == f"{name}params".replace("_", ""))
    return {key: kind for field, annotation in fields(top).items()
            for key, kind in flattened(field, annotation, known).items()}


def properties(kind):
    top = next(node for name, node in classes(HOME / f"_{kind}.py").items() if snake(name) == kind)
    return {name: type_of(annotation) for name, annotation in fields(top).items()}


def lines(of):
    """One line for each operation or object."""
    parts = [f"{json.dumps(name)}: {json.dumps(types, sort_keys=True)}" for name, types in sorted(of.items())]
    return "{\n" + ",\n".join(parts) + "\n}"


print(f"""{{"version": {json.dumps(stripe.api_version)}, "requests": {lines({name: request(kind) for name, kind in REQUESTS.items()})},
"objects": {lines({kind: properties(kind) for kind in OBJECTS})}}}""")
