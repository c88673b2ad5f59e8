-- The sample shop. tools/orders.py runs this in one transaction on a new database; two processes may
-- both find it new, so running it twice changes nothing.
CREATE TABLE IF NOT EXISTS orders (
    order_id    TEXT PRIMARY KEY,
    customer    TEXT NOT NULL,
    email       TEXT NOT NULL,
    item        TEXT NOT NULL,
    total_cents INTEGER NOT NULL CHECK (typeof(total_cents) = 'integer' AND total_cents > 0),
    currency    TEXT NOT NULL,
    ordered_on  TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS refunds (
    idempotency_key TEXT NOT NULL UNIQUE,
    order_id        TEXT NOT NULL REFERENCES orders (order_id),
    amount_cents    INTEGER NOT NULL CHECK (typeof(amount_cents) = 'integer' AND amount_cents > 0),
    refunded_at     TEXT NOT NULL,
    run_id          TEXT NOT NULL
);

INSERT OR IGNORE INTO orders VALUES
    ('1038', 'Grace Hopper',        'grace@example.com',     'Ship''s clock, brass',        12900, 'USD', '2026-10-02'),
    ('1039', 'Alan Turing',         'alan@example.org',      'Bicycle chain',                1850, 'GBP', '2026-10-09'),
    ('1040', 'Émilie du Châtelet',  'emilie@example.net',    'Prism, optical glass',         3400, 'EUR', '2026-10-17'),
    ('1041', 'Ada Lovelace',        'ada@example.com',       'Punched cards, box of 500',    2200, 'USD', '2026-10-21'),
    ('1042', 'Ada Lovelace',        'ada@example.com',       'Desk lamp, green glass',       4900, 'USD', '2026-11-03'),
    ('1043', 'Katherine Johnson',   'katherine@example.com', 'Slide rule, 25 cm',            2650, 'USD', '2026-11-08'),
    ('1044', 'Grace Hopper',        'grace@example.com',     'Copper wire, 11.8 inches',      399, 'USD', '2026-11-12'),
    ('1045', 'Edsger Dijkstra',     'edsger@example.org',    'Fountain pen',                 7500, 'EUR', '2026-11-19');

INSERT OR IGNORE INTO refunds VALUES ('seed-1', '1045', 2500, '2026-11-24T09:12:00+00:00', 'seed');

PRAGMA user_version = 1;
