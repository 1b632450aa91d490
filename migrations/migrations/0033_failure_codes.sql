-- Why something failed: of a payment that is failed, or whose last capture or void failed, and of a refund.
ALTER TABLE payments ADD COLUMN failure_code text;
ALTER TABLE refunds ADD COLUMN failure_code text;
-- A charge that no payment wants: a second one, or one of another total than was asked.
ALTER TABLE charge_anomalies ADD COLUMN kind text NOT NULL DEFAULT 'second_charge'
    CHECK (kind IN ('second_charge', 'amount_mismatch'));
