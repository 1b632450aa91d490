-- Until this time, the response to the creation of a subscription may be replaced by the outcome of its first collection, and
-- requests with the same key wait. A key without a provisional response has none.
ALTER TABLE creation_keys ADD COLUMN provisional_until timestamptz;
