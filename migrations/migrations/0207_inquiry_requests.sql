-- How often an event or a statement has asked for an inquiry about the charge. One that was asked for while another was being made
-- is recognized by it: by an account's frozen time, both are due at the same instant.
ALTER TABLE payments ADD COLUMN inquiry_requests bigint NOT NULL DEFAULT 0;
