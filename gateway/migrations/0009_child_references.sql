-- The reference that a caller gives a capture, void or refund: good for one child of the account, whatever became of it. A table of
-- its own, because a unique index on transactions could not be built beside a release that goes on writing them.

CREATE TABLE gateway.child_references (
    account_id     uuid NOT NULL REFERENCES gateway.accounts (id),
    reference_id   text NOT NULL CHECK (char_length(reference_id) BETWEEN 1 AND 255),
    transaction_id uuid NOT NULL CONSTRAINT child_references_transaction UNIQUE,
    CONSTRAINT child_references_pkey PRIMARY KEY (account_id, reference_id),
    -- The reference is written before its child, so that of two requests with one reference the second waits here.
    CONSTRAINT child_references_child FOREIGN KEY (account_id, transaction_id)
        REFERENCES gateway.transactions (account_id, id) DEFERRABLE INITIALLY DEFERRED
);
