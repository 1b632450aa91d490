-- A merchant's own id of a refund, unique for its payment, so that a repeated request is answered with the refund that is there; and
-- what was asked for, NULL being all that was left then.
ALTER TABLE refunds ADD COLUMN external_id text;
ALTER TABLE refunds ADD COLUMN amount_asked bigint;
