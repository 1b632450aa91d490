-- no-transaction
-- Like operations_by_provider_ref, with the refunds that return a charge that belongs to no payment.
CREATE INDEX CONCURRENTLY IF NOT EXISTS operations_follow_ups_by_provider_ref ON operations (provider_ref)
    WHERE provider_ref IS NOT NULL AND kind IN ('capture', 'void', 'refund', 'reverse', 'reverse_by_refund');
