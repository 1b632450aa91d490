-- no-transaction
-- What followed a charge, by the provider's name for it. Charges have theirs in payments, and are left out: nothing is added to
-- what a payment costs.
CREATE INDEX CONCURRENTLY IF NOT EXISTS operations_by_provider_ref ON operations (provider_ref)
    WHERE provider_ref IS NOT NULL AND kind IN ('capture', 'void', 'refund', 'reverse');
