-- Since when deliveries to an endpoint cannot be signed, because its secret cannot be decrypted, and when it is tried again. Nothing
-- is sent to it until then.
ALTER TABLE webhook_endpoints
    ADD COLUMN signing_failed_since timestamptz,
    ADD COLUMN signing_retry_at timestamptz;
