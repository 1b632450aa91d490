-- no-transaction
-- Whether a charge is known as one that nobody wanted, before an operator enters it as the outcome of another operation.
CREATE INDEX CONCURRENTLY IF NOT EXISTS charge_anomalies_provider_ref ON charge_anomalies (account_id, provider_ref);
