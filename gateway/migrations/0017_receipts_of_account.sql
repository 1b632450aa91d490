-- Accounts take turns. Receipts that the former version has written count as those of one account.
ALTER TABLE gateway.receipts ADD COLUMN account_id uuid NOT NULL DEFAULT 'ffffffff-ffff-ffff-ffff-ffffffffffff';
