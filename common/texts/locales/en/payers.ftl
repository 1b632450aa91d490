# Texts for payers. $payee is the name of the merchant.

language-name = English

## Money and time

# $symbol (String) - the currency's symbol
# $number (String) - digits with separators, without a sign
money = { $symbol }{ $number }
# $symbol (String) - the currency's symbol
# $number (String) - digits with separators, without a sign
money-negative = −{ $symbol }{ $number }
# $code (String) - the currency's code, for one without a symbol
# $number (String) - digits with separators, without a sign
money-by-code = { $code } { $number }
# $code (String) - the currency's code, for one without a symbol
# $number (String) - digits with separators, without a sign
money-by-code-negative = −{ $code } { $number }
# $date (String) - a day
# $time (String) - 24 hours, such as 17:05
# $zone (String) - the time zone's abbreviation
moment = { $date }, { $time } { $zone }

## Titles of the page in the browser

# $amount (String) - with its currency
# $payee (String)
title-open = Pay { $amount } to { $payee }
# $amount (String) - with its currency
# $payee (String)
title-under-way = { $amount } to { $payee } is being paid
# $amount (String) - with its currency
# $payee (String)
title-not-now = { $amount } to { $payee } cannot be paid right now
# $amount (String) - with its currency
# $payee (String)
title-paid = { $amount } to { $payee } is paid
# $amount (String) - with its currency
# $payee (String)
title-closed = { $amount } to { $payee }

## The state of the page

test-mode = Test mode: no money moves.
under-way = A payment is being processed. Please do not pay again; this page updates automatically.
returning = An earlier charge is being returned to its card. You can pay here as soon as it has been returned.
# $payee (String)
too-many-declined = Too many cards were declined here, so this cannot be paid right now. Please try again in an hour, or ask { $payee } for another way to pay.
# $moment (String) - day and time
paid-at = Paid on { $moment }. Thank you.
# $moment (String) - day and time
paid-on = Paid on { $moment }. If you paid in another window, that payment is the one shown here.
paid = Paid. Thank you.
already-paid = Already paid. Your card was not charged.
not-charged = This attempt charged nothing.
# $payee (String)
voided = This invoice was voided by { $payee }. There is nothing to pay.
# $payee (String)
cancelled = This payment link was cancelled by { $payee }. There is nothing to pay.
# $payee (String)
expired = This payment link has expired. Please ask { $payee } for a new one.
badge-voided = Void
badge-cancelled = Cancelled
badge-expired = Expired
badge-overdue = Overdue
confirm-with-bank = Your bank asks you to confirm this payment. Nothing is charged until you confirm it.
continue-with-bank = Continue with your bank

## What is paid

# $number (String) - the merchant's number for tax
tax-number = Tax ID { $number }
invoice = Invoice
billed-to = Billed to
issued = Issued
due = Due
description = Description
amount = Amount
# $count (Number) - how many lines
all-lines = All { $count } lines
subtotal = Subtotal
discount = Discount
tax = Tax
total = Total
surcharge = Surcharge
tip = Tip
total-to-pay = Total to pay
# $moment (String) - day and time
payable-until = Can be paid until { $moment }.

## The form

pay-by-card = Pay by card
# $payee (String)
script-needed = To pay here, your browser must run JavaScript, which sends your card directly to the card processor. Please turn it on, or ask { $payee } for another way to pay.
# $amount (String) - with its currency
add-tip = Add a tip of { $amount }
use-for-renewals = Use this card for renewals and other open invoices
# $amount (String) - with its currency
pay-amount = Pay { $amount }
paying = Paying…
card-goes-to-processor = Your card goes straight to the card processor.
test-cards-only = For test cards only: no card data is sent.
how-to-pay = How to pay
# $payee (String)
no-card-yet = This page cannot take a card yet. Please contact { $payee } to pay.
# $payee (String)
amount-not-payable = This amount cannot be paid on this page. Please contact { $payee } to pay.
language = Language

## Test cards

test-cards = Test cards
test-card-approved = is approved
test-card-declined = is declined
test-card-low-balance = is declined (low balance)
test-card-lost = is declined permanently
test-card-stolen = is also declined permanently
test-card-expired = has expired
test-card-code = is declined (wrong security code)
test-card-challenge = asks for confirmation
test-card-partial = is approved for half
test-card-others = Use any future date, any security code and any name.

## The receipt

receipt = Receipt
paid-to = Paid to
paid-for = For
date = Date
card = Card
# $brand (String) - such as Visa
# $last4 (String) - the last four digits
card-ending = { $brand } ending in { $last4 }
payment = Payment
total-paid = Total paid
refunded-since = Refunded since
questions = Questions?

## Why a submission failed

no-card-sent = No card was sent. Please enter it again.
total-changed = The amount has changed. Nothing was charged; please check the new amount before you pay.
currency-not-accepted = Cards cannot be charged in this currency here. Nothing was charged.
card-unusable = The card could not be used. Nothing was charged; please try again.
card-already-used = The card details were already used for a payment. Nothing was charged; please try again.
no-response = There was no response. Please press the button again: if the payment succeeded, the page says so, and nothing is charged twice.

## Why a payment failed

try-again = You can try again, or use another card.
other-amount-returned = The card was charged a different amount than shown. That amount was returned.
other-amount-returning = The card was charged a different amount than shown. That amount is being returned.
payment-failed = The payment could not be made. Nothing was charged.
part-returned = The card's bank approved only part of the amount. That part was returned.
part-returning = The card's bank approved only part of the amount. That part is being returned.
declined = The card was declined by its bank. Nothing was charged.
declined-funds = The card was declined: insufficient funds. Nothing was charged.
declined-expired = The card was declined: it has expired. Nothing was charged.
declined-code = The card was declined: the security code is incorrect. Nothing was charged.
declined-confirmation = The card was declined: its bank requires a confirmation. Nothing was charged.
declined-unconfirmed = The card was declined: the payment was not confirmed with its bank. Nothing was charged.
declined-limit = The amount exceeds the limit for a card payment. Nothing was charged.
declined-busy = No more card payments can be accepted at the moment. Nothing was charged; please try again later.
declined-network = There were too many payments from your network. Nothing was charged; please try again later.
declined-unsupported = The card was declined: it cannot be used here. Nothing was charged.
declined-saving = If you chose to use this card for renewals, you can also try again without that: its bank can then ask you to confirm the payment.

## The page after a bank's confirmation

one-moment = One moment, please
bank-pending = Your bank has not confirmed the payment yet. This page updates automatically.
payment-declined = The payment was declined
payment-not-made = The payment could not be made
close-page = You can close this page.
payment-undone-title = Payment
payment-undone = This payment was cancelled or refunded.
thank-you = Thank you
bank-confirmed = Your bank has confirmed the payment.

## The simulated bank

bank-title = Confirm your payment
bank-simulated = This is a simulated bank.
# $card (String) - its masked number
bank-question = Pay with the card { $card }?
bank-confirm = Confirm
bank-refuse = Refuse
# $seconds (String) - how many are left
bank-time = Time to decide: { $seconds } s. After that the payment is not made.
bank-time-over = The time is up. The payment was not confirmed, and nothing was charged.
bank-go-back = Go back
bank-done = Done. You may close this page.
bank-choose = Please choose Confirm or Refuse.
bank-nothing = There is nothing to confirm here.
bank-unavailable = This is not possible right now. Please try again in a moment.

## Errors

nothing-here = Nothing to pay here
address-invalid = This address is not valid. Please check that you have the complete address.
did-not-work = This did not work
open-in-browser = Please open the page in a browser and pay with the button on it.
too-many-requests = There were too many requests. This request charged nothing; please try again in a few seconds.
unreadable = The request could not be read. Nothing was charged; please go back to the page and try again.
our-fault = Something went wrong on our side
attempt-charged-nothing = This attempt charged nothing. Please try again.

## The card field

card-details = Card details
field-script-needed = Entering a card requires JavaScript.
field-unknown = This card field does not exist.
field-used = This card field was already used or has expired. Please reload the page.
field-busy = There were too many requests. Please try again in a few seconds.
field-unavailable = Cards cannot be accepted here yet.
field-failed = Something went wrong on our side. Please try again.
card-number = Card number
expiry-date = Expiry date
# The letters stand for a month and a year of two digits.
expiry-placeholder = MM / YY
security-code = Security code
security-code-placeholder = CVC
security-code-hint = 3 digits on the back of the card; 4 on the front of an American Express
name-on-card = Name on card
country = Country
postal-code = Postal code
enter-number = Please enter the card number.
number-invalid = The card number is not valid. Please check it.
enter-expiry = Please enter the expiry date.
expiry-malformed = The expiry date is not valid. Enter month and year, such as 04 / 29.
expiry-invalid = The expiry date is not valid. Please check it.
card-expired = The card has expired. Please check the date, or use another card.
enter-code = Please enter the security code: 3 digits on the back of the card.
enter-code-amex = Please enter the security code: 4 digits on the front of the card.
enter-name = Please enter the name on the card.
enter-postal-code = Please enter the postal code.
country-invalid = The country is not valid. Please check it.
card-invalid = The card details are not valid. Please check them.
card-unreadable = The card could not be read. Please try again.
processor-unreachable = The card processor could not be reached. Nothing was charged; please try again.

## The script in a merchant's page

service-unreachable = The payment service could not be reached. Please try again.
service-busy = The payment service is busy. Please try again in a moment.
took-too-long = This took too long. Please try again.
not-available-here = Paying by card is not available here at the moment.
processor-silent = The card processor did not respond. Please try again.
field-closed = The card field has been closed.

## E-mails

# $number (String)
# $payee (String)
mail-invoice-subject = Invoice { $number } from { $payee }
# $payee (String)
# $amount (String) - with its currency
mail-invoice-intro = { $payee } has sent you an invoice for { $amount }.
# $date (String) - a day
mail-invoice-due = Please pay it by { $date }.
# $date (String) - a day
mail-invoice-collected = Your saved card will be charged on { $date }. You do not need to do anything.
mail-invoice-open = View and pay the invoice
# $amount (String) - with its currency
# $payee (String)
mail-receipt-subject = Receipt for { $amount } from { $payee }
# $amount (String) - with its currency
# $payee (String)
# $moment (String) - day and time
mail-receipt-intro = You paid { $amount } to { $payee } on { $moment }. Thank you.
mail-receipt-open = View the receipt
# $amount (String) - with its currency
# $payee (String)
mail-failed-subject = Your payment of { $amount } to { $payee } was not made
# $payee (String)
# $amount (String) - with its currency
mail-failed-intro = { $payee } could not charge { $amount } to your card.
# $payee (String)
# $amount (String) - with its currency
mail-failed-no-card = { $payee } could not charge { $amount }: there is no card to charge.
mail-failed-no-card-next = You can pay the invoice by card on its page.
mail-failed-returning = An earlier charge is being returned to its card. Please pay the invoice once it has been returned.
mail-failed-confirm = Your bank asks you to confirm this payment yourself. You can do so on the page of the invoice.
# $date (String) - a day
mail-failed-retry = The charge will be tried again on { $date }. You can also pay now, with this or another card.
mail-failed-last = No further attempt is planned. Please pay the invoice, with this or another card.
mail-failed-open = Pay the invoice
# $name (String) - of a value
# $value (String)
mail-labelled = { $name }: { $value }
mail-invoice-pdf = Invoice as PDF
mail-receipt-pdf = Receipt as PDF

## Receipts by e-mail

receipts-title = Receipts by e-mail
# $payee (String)
receipts-on = You receive a receipt by e-mail when you pay { $payee }. Other e-mails do not change if you stop receipts.
# $payee (String)
receipts-off = You receive no more receipts by e-mail from { $payee }. The receipt of an invoice remains available on its page.
receipts-stop = Stop receipts by e-mail
receipts-resume = Resume receipts by e-mail

## Invitations to the portal, by e-mail

# $payee (String)
mail-invitation-subject = Invitation from { $payee }
# $payee (String)
# $role (String)
mail-invitation-intro = { $payee } invites you as { $role }. Please choose a password on this page:
# $days (String)
# $payee (String)
mail-invitation-once = The link works once, for { $days } days. If you do not know { $payee }, you can ignore this e-mail.
role-owner = owner
role-developer = developer
role-support = support
role-viewer = viewer
