-- Where cardholders may ask about a payment, as the merchant has given it: an address, a telephone number, or both.
ALTER TABLE accounts ADD COLUMN support_contact text;
