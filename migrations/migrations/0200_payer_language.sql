-- The language that the payer chose on the page of an invoice or a link, in which the page is shown again after the bank has confirmed
-- the payment. The providers take the URL to return to before the payer decides, and banks drop what is added to it.
ALTER TABLE payments ADD COLUMN payer_language text;
