-- Where whoever pays on a payment page has come from, for the provider that counts by it. It is forgotten when the operation ends.
ALTER TABLE operations ADD COLUMN payer_address text;
