ALTER TABLE api_keys VALIDATE CONSTRAINT api_keys_name;
