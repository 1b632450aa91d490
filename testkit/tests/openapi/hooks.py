"""What a schema cannot express and schemathesis cannot guess: valid tokens, and rules between fields."""

import itertools
import json
import os
import re
from datetime import datetime, timedelta, timezone

import schemathesis

LIST = r"startingAfter|after|wait|currency|createdFrom|dueFrom|amountFrom"  # not in the list, unknown, or a range that ends before it begins
CUSTOM_FIELD = r"customFields\[\d+\]"  # a name without a letter, or that another row has
TOKEN = r"paymentToken"  # unknown or expired; also: no funding source
FUNDING = r"paymentMethodId"  # both funding sources, or a card that cannot be charged
MORE_THAN_LEFT = r"amount"
URL = r"url"  # an address to which webhooks are not sent
KEY = r"Idempotency-Key"  # used before, with another body
TOTAL = r"amount|items|amountTax|amountDiscount"  # the total of the items, and fields that need items
DUE = r"dueAt|paymentTerms|collectAt"  # both, or a time with an invalid year
CLOCK = r"to"  # not later than the account's time, or too far ahead
DATES = r"cadence\.dayOfMonth|lastDayOfMonth|startDate|endDate"  # inconsistent, or without any date
TEMPLATE = r"template\.(items|amountTax|amountDiscount)"  # the total of the items

# A request that is valid by the schema may be rejected with 422 only for one of these fields of its operation.
BEYOND_SCHEMA = {
    "customers.create": [KEY, CUSTOM_FIELD],
    "customers.update": [CUSTOM_FIELD],
    "payment_methods.create": [KEY, TOKEN],
    "payments.create": [TOKEN, FUNDING, KEY, r"customerId"],  # with a saved card, which has its customer
    "payments.capture": [MORE_THAN_LEFT],
    "payments.refund": [MORE_THAN_LEFT],
    "settlements.retrieve": [r"day"],  # a date that does not exist
    "tokens.create": [r"upstreamToken"],
    "webhook_endpoints.create": [KEY, URL],
    "webhook_endpoints.update": [URL],
    "addresses.create": [KEY],
    "addresses.update": [r"customerId"],  # not the customer of the address
    "plans.create": [KEY, r"intervalCount"],  # more than three years
    # Too late for a cycle, an unknown time zone, or another customer's card.
    "subscriptions.create": [KEY, r"startAt|timezone|paymentMethodId"],
    "invoices.create": [KEY, TOTAL, DUE],
    "invoices.schedule": [FUNDING, DUE],  # another customer's card, or a time with an invalid year
    "test_clock.advance": [CLOCK],
    "recurring_invoices.create": [KEY, DATES, TEMPLATE],
    "recurring_invoices.update": [DATES, TEMPLATE, r"customerId"],  # not its customer
    "payment_links.create": [KEY, r"expiresAt"],  # not in the future, or an invalid year
}

NUL = "must not contain the character U+0000"  # applies to fields of any name, so no schema has it

# Unused objects by the operation that each is for.
FRESH = json.loads(os.environ.get("FRESH", "{}"))
CUSTOMER = os.environ.get("CUSTOMER")  # the id of an existing customer
PLAN = os.environ.get("PLAN")
# The file to which the operations of accepted requests are written.
ACCEPTED = open(os.environ["ACCEPTED"], "a", buffering=1, encoding="utf-8")
COUNT = itertools.count()
TOKENS = ["tok_ok", "tok_partial", "tok_insufficient", "tok_lost"]


def is_positive(case):
    """Whether the request is valid by the schema."""
    return case.meta is not None and case.meta.generation.mode.is_positive


def make_items_valid(bill):
    """Bounds the random items so that their total is a valid amount."""
    number = lambda value, range: 1 + value % range if isinstance(value, (int, float)) else value
    for item in bill["items"]:
        item.update(quantity=number(item["quantity"], 1000), unitAmount=number(item["unitAmount"], 100_000))
    bill.update(amountTax=number(bill.get("amountTax"), 1000), amountDiscount=None)


def make_recurring_invoice_valid(recurring):
    """Makes the random fields consistent: a cadence with dates, and items with a valid total."""
    recurring.update(lastDayOfMonth=False, endDate=None)
    cadence = recurring.get("cadence") or {}
    if cadence.get("unit") in ("daily", "weekly"):
        cadence["dayOfMonth"] = None
    if recurring.get("template"):
        make_items_valid(recurring["template"])


def make_invoice_valid(invoice):
    """Makes the random fields consistent: a valid total, and at most one due date."""
    if invoice.get("items"):
        make_items_valid(invoice)
        invoice["amount"] = None
    else:
        invoice.update(amountTax=None, amountDiscount=None, amount=invoice.get("amount") or 1000)
    if invoice.get("dueAt"):
        invoice["paymentTerms"] = None


def value_at(body, path):
    """The value in a body at a path such as `items[2].quantity`, or None."""
    for step in re.findall(r"[^.\[\]]+", path):
        if isinstance(body, list) and step.isdecimal() and int(step) < len(body):
            body = body[int(step)]
        elif isinstance(body, dict):
            body = body.get(step)
        else:
            return None
    return body


@schemathesis.hook
def before_call(ctx, case, kwargs):
    """Makes three of four requests pass the rules that random data breaks, so that later code is tested too."""
    if not is_positive(case):
        return
    count = next(COUNT)
    if case.operation.definition.raw["operationId"] == "test_clock.advance":
        # Always, and by little, because objects created for other operations must not expire.
        case.body["to"] = (datetime.now(timezone.utc) + timedelta(seconds=10 * count)).isoformat()
        return
    if count % 4 == 0:
        return
    if isinstance(case.query, dict):
        case.query.pop("startingAfter", None)
        if CUSTOMER and "customerId" in case.query:
            case.query["customerId"] = CUSTOMER
    if isinstance(case.body, dict) and isinstance(case.body.get("paymentToken"), str):
        case.body["paymentToken"] = TOKENS[count % len(TOKENS)]
        case.body.pop("paymentMethodId", None)
    if isinstance(case.body, dict) and isinstance(case.body.get("url"), str):
        case.body["url"] = "https://hooks.example/by-schemathesis"
    if CUSTOMER and isinstance(case.body, dict) and isinstance(case.body.get("customerId"), str):
        case.body["customerId"] = CUSTOMER
    if PLAN and isinstance(case.body, dict) and isinstance(case.body.get("planId"), str):
        case.body.update(planId=PLAN, paymentMethodId=None, timezone="Asia/Kolkata")
    operation = case.operation.definition.raw["operationId"]
    if operation == "invoices.create" and isinstance(case.body, dict):
        make_invoice_valid(case.body)
    if operation in ("recurring_invoices.create", "recurring_invoices.update") and isinstance(case.body, dict):
        make_recurring_invoice_valid(case.body)
    if operation == "recurring_invoices.update" and isinstance(case.body, dict):
        case.body.pop("customerId", None)
    if operation == "invoices.schedule" and isinstance(case.body, dict):
        case.body.pop("paymentMethodId", None)
    if operation == "payment_links.create" and isinstance(case.body, dict):
        case.body["expiresAt"] = None if count % 2 else "9000-01-01T00:00:00Z"
    fresh = FRESH.get(operation)
    if fresh:
        case.path_parameters["id"] = fresh.pop()
        if isinstance(case.body, dict) and isinstance(case.body.get("amount"), int):
            case.body["amount"] = 1 + case.body["amount"] % 1000


@schemathesis.hook
def after_call(ctx, case, response):
    """Records accepted operations. The later state of an object proves nothing, since other requests change it too."""
    if response.status_code < 300:
        ACCEPTED.write(case.operation.definition.raw["operationId"] + "\n")


@schemathesis.check
def valid_requests_are_accepted(ctx, response, case):
    """Replaces `positive_data_acceptance`."""
    if not is_positive(case) or response.status_code != 422:
        return
    error = response.json()["error"]
    operation = case.operation.definition.raw["operationId"]
    allowed = [LIST] if operation.endswith((".list", ".attempts")) else BEYOND_SCHEMA.get(operation, [])
    listed = any(re.fullmatch(rule, error.get("param", "")) for rule in allowed)
    # In JSON Schema 10.0 is an integer; this API rejects it.
    fraction = isinstance(value_at(case.body, error.get("param", "")), float)
    assert listed or fraction or NUL in error["message"], f"rejected: {response.text}"
