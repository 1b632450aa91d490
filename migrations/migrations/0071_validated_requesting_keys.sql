-- The two keys of 0070, checked against all rows. VALIDATE waits for neither readers nor writers and keeps none waiting.
ALTER TABLE operations VALIDATE CONSTRAINT operations_requested_by_key;
ALTER TABLE refunds VALIDATE CONSTRAINT refunds_requested_by_key;
