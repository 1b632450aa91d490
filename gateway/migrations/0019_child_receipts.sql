-- How many receipts of its captures, voids and refunds were requested: a charge can be refunded in any number of parts.
ALTER TABLE gateway.transactions ADD COLUMN child_receipts integer NOT NULL DEFAULT 0;
