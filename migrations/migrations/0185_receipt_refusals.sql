-- Customers who do not want receipts by e-mail.
CREATE TABLE receipt_refusals (
    account_id uuid NOT NULL,
    customer_id uuid NOT NULL,
    PRIMARY KEY (account_id, customer_id),
    FOREIGN KEY (account_id, customer_id) REFERENCES customers (account_id, id)
);
