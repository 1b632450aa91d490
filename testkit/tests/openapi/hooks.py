"""What a schema cannot say and schemathesis cannot guess: tokens that pay, and rules between fields."""

import itertools
import json
import os
import re
from datetime import datetime, timedelta, timezone

import schemathesis

CURSOR = r"startingAfter"
CUSTOM_FIELD = r"customFields\[\d+\]"  # a name that is no letter of any script, or that another row has
TOKEN = r"paymentToken"  # unknown or expired; also: no funding source
FUNDING = r"paymentMethodId"  # both funding sources, or a card that cannot be charged
MORE_THAN_LEFT = r"amount"
URL = r"url"  # an address that nothing is sent to
KEY = r"Idempotency-Key"  # used before, with another body
TOTAL = r"amount|items|amountTax|amountDiscount"  # what rows come to, and what needs rows
DUE = r"dueAt|paymentTerms|collectAt"  # both, or an instant of a year that is none
CLOCK = r"to"  # not later than the account's time, or too far ahead
DATES = r"cadence\.dayOfMonth|lastDayOfMonth|startDate|endDate"  # what does not go together, or leaves no date
TEMPLATE = r"template\.(items|amountTax|amountDiscount)"  # what rows come to

# A request that the schema allows may be refused with 422 for one of these fields alone, and only where it is listed.
BEYOND_SCHEMA = {
    "customers.create": [KEY, CUSTOM_FIELD],
    "customers.update": [CUSTOM_FIELD],
    "customers.list": [CURSOR],
    "payment_methods.create": [KEY, TOKEN],
    "payment_methods.list": [CURSOR],
    "payments.create": [TOKEN, FUNDING, KEY],
    "payments.list": [CURSOR],
    "payments.capture": [MORE_THAN_LEFT],
    "payments.refund": [MORE_THAN_LEFT],
    "tokens.create": [r"upstreamToken"],
    "webhook_endpoints.create": [KEY, URL],
    "webhook_endpoints.update": [URL],
    "webhook_endpoints.list": [CURSOR],
    "webhook_deliveries.list": [CURSOR],
    "addresses.create": [KEY],
    "addresses.list": [CURSOR],
    "addresses.update": [r"customerId"],  # another customer than the address has
    "plans.create": [KEY, r"intervalCount"],  # more than three years of the interval
    "plans.list": [CURSOR],
    "subscriptions.create": [KEY, r"startAt|timezone|paymentMethodId"],  # no room for a cycle, no such zone, a card of another
    "subscriptions.list": [CURSOR],
    "invoices.create": [KEY, TOTAL, DUE],
    "invoices.list": [CURSOR],
    "invoices.schedule": [FUNDING, DUE],  # another customer's card, or an instant of a year that is none
    "invoices.attempts": [CURSOR],
    "test_clock.advance": [CLOCK],
    "recurring_invoices.create": [KEY, DATES, TEMPLATE],
    "recurring_invoices.update": [DATES, TEMPLATE, r"customerId"],  # another customer than it has
    "recurring_invoices.list": [CURSOR],
    "payment_links.create": [KEY, r"expiresAt"],  # an instant that does not lie ahead, or of a year that is none
    "payment_links.list": [CURSOR],
}

NUL = "must not contain the character U+0000"  # holds for fields of any name, so no schema has it

# Objects that nothing was done to yet, by the operation that each is for.
FRESH = json.loads(os.environ.get("FRESH", "{}"))
CUSTOMER = os.environ.get("CUSTOMER")  # one that exists
PLAN = os.environ.get("PLAN")
# Where the operations of accepted requests are written to.
ACCEPTED = open(os.environ["ACCEPTED"], "a", buffering=1, encoding="utf-8")
COUNT = itertools.count()
TOKENS = ["tok_ok", "tok_partial", "tok_insufficient", "tok_lost"]


def is_positive(case):
    """Whether the request is one that the schema allows."""
    return case.meta is not None and case.meta.generation.mode.is_positive


def add_up_rows(bill):
    """Makes random rows ones that come to an amount."""
    number = lambda value, range: 1 + value % range if isinstance(value, (int, float)) else value
    for row in bill["items"]:
        row.update(quantity=number(row["quantity"], 1000), unitAmount=number(row["unitAmount"], 100_000))
    bill.update(amountTax=number(bill.get("amountTax"), 1000), amountDiscount=None)


def goes_together(recurring):
    """Makes a recurring invoice of random fields one that has dates, and invoices that come to an amount."""
    recurring.update(lastDayOfMonth=False, endDate=None)
    cadence = recurring.get("cadence") or {}
    if cadence.get("unit") in ("daily", "weekly"):
        cadence["dayOfMonth"] = None
    if recurring.get("template"):
        add_up_rows(recurring["template"])


def add_up(invoice):
    """Makes an invoice of random fields one that comes to an amount, and has one due date at most."""
    if invoice.get("items"):
        add_up_rows(invoice)
        invoice["amount"] = None
    else:
        invoice.update(amountTax=None, amountDiscount=None, amount=invoice.get("amount") or 1000)
    if invoice.get("dueAt"):
        invoice["paymentTerms"] = None


def sent(body, path):
    """What stands in a body at a path such as `items[2].quantity`; none if nothing does."""
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
    """Three of four requests get past the rules that random data breaks, so that what lies behind is reached too."""
    if not is_positive(case):
        return
    chosen = next(COUNT)
    if case.operation.definition.raw["operationId"] == "test_clock.advance":
        # Always, and by little: what was made for other operations must not expire.
        case.body["to"] = (datetime.now(timezone.utc) + timedelta(seconds=10 * chosen)).isoformat()
        return
    if chosen % 4 == 0:
        return
    if isinstance(case.query, dict):
        case.query.pop("startingAfter", None)
        if CUSTOMER and "customerId" in case.query:
            case.query["customerId"] = CUSTOMER
    if isinstance(case.body, dict) and isinstance(case.body.get("paymentToken"), str):
        case.body["paymentToken"] = TOKENS[chosen % len(TOKENS)]
        case.body.pop("paymentMethodId", None)
    if isinstance(case.body, dict) and isinstance(case.body.get("url"), str):
        case.body["url"] = "https://hooks.example/by-schemathesis"
    if CUSTOMER and isinstance(case.body, dict) and isinstance(case.body.get("customerId"), str):
        case.body["customerId"] = CUSTOMER
    if PLAN and isinstance(case.body, dict) and isinstance(case.body.get("planId"), str):
        case.body.update(planId=PLAN, paymentMethodId=None, timezone="Asia/Kolkata")
    operation = case.operation.definition.raw["operationId"]
    if operation == "invoices.create" and isinstance(case.body, dict):
        add_up(case.body)
    if operation in ("recurring_invoices.create", "recurring_invoices.update") and isinstance(case.body, dict):
        goes_together(case.body)
    if operation == "recurring_invoices.update" and isinstance(case.body, dict):
        case.body.pop("customerId", None)
    if operation == "invoices.schedule" and isinstance(case.body, dict):
        case.body.pop("paymentMethodId", None)
    if operation == "payment_links.create" and isinstance(case.body, dict):
        case.body["expiresAt"] = None if chosen % 2 else "9000-01-01T00:00:00Z"
    fresh = FRESH.get(operation)
    if fresh:
        case.path_parameters["id"] = fresh.pop()
        if isinstance(case.body, dict) and isinstance(case.body.get("amount"), int):
            case.body["amount"] = 1 + case.body["amount"] % 1000


@schemathesis.hook
def after_call(ctx, case, response):
    """What comes of an object later is no proof of what was done to it: others change it too."""
    if response.status_code < 300:
        ACCEPTED.write(case.operation.definition.raw["operationId"] + "\n")


@schemathesis.check
def what_the_schema_allows_is_accepted(ctx, response, case):
    """Like `positive_data_acceptance`, which this one stands for."""
    if not is_positive(case) or response.status_code != 422:
        return
    error = response.json()["error"]
    allowed = BEYOND_SCHEMA.get(case.operation.definition.raw["operationId"], [])
    listed = any(re.fullmatch(rule, error.get("param", "")) for rule in allowed)
    # To JSON Schema 10.0 is an integer; to this API it is none.
    fraction = isinstance(sent(case.body, error.get("param", "")), float)
    assert listed or fraction or NUL in error["message"], f"refused: {response.text}"
