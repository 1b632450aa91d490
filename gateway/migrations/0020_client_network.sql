-- What counts as one client, as in common/foundation/src/network.rs: an IPv4 address, or the /64 of an IPv6 address.
CREATE FUNCTION gateway.client_network(address text) RETURNS inet LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN network(set_masklen(address::inet, CASE family(address::inet) WHEN 4 THEN 32 ELSE 64 END))::inet;
