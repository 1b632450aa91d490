-- Whether a payment in this status is in progress, or approved and not reversed: an invoice or link has at most one. Repeats
-- the condition of the unique indexes payments_one_live_per_invoice and payments_one_live_per_link, so that a statement with
-- it, in which Postgres replaces the call by its body, uses them.
CREATE FUNCTION is_live(status payment_status) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN status NOT IN ('declined', 'failed', 'cancelled', 'expired', 'refunded');
