// The settings reader: the values that it accepts and refuses. It reports all problems at once and no secret.

import fc from "fast-check";
import { describe, expect, expectTypeOf, test } from "vitest";
import {
  boolean,
  bytes,
  ConfigError,
  duration,
  type Field,
  integer,
  list,
  oneOf,
  optional,
  orOff,
  readConfig,
  text,
  url,
} from "../../../../shared/runtime/settings/config.ts";
import { editDistance, nearestName } from "../../../../shared/runtime/settings/did-you-mean.ts";
import { formatDuration, parseDuration } from "../../../../shared/runtime/settings/duration.ts";

const description = "for the test";
const fields = {
  store: url("FLEET_STORE", { description, default: "lmdb:./.fleet/store", schemes: ["lmdb", "fdb"] }),
  port: integer("FLEET_PORT", { description, default: 8080, min: 1, max: 65535 }),
  lease: duration("FLEET_LEASE", { description, default: "30s", min: "1s", max: "1h" }),
  level: oneOf("FLEET_LOG_LEVEL", ["info", "debug"], { description, default: "info" }),
  servers: list("FLEET_SERVERS", { description, default: ["nats://127.0.0.1:4222"] }),
  pretty: boolean("FLEET_PRETTY", { description, default: false }),
  token: text("FLEET_TOKEN", { description, secret: true, min: 8 }),
  opsPort: optional(integer("FLEET_OPS_PORT", { description, min: 0 })),
};

const bus = url("FLEET_URL", { description, schemes: ["nats", "tls"], several: true });

function problemsOf(env: Record<string, string>) {
  try {
    readConfig(fields, env);
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error("no problem was found");
}

describe("reading", () => {
  test("unset and empty variables take the default, and types follow the fields", () => {
    const config = readConfig(fields, { FLEET_TOKEN: "long enough", FLEET_PORT: "", FLEET_LEASE: "  " });
    expect(config).toEqual({
      store: "lmdb:./.fleet/store",
      port: 8080,
      lease: 30_000,
      level: "info",
      servers: ["nats://127.0.0.1:4222"],
      pretty: false,
      token: "long enough",
      opsPort: undefined,
    });
    expectTypeOf(config.level).toEqualTypeOf<"info" | "debug">();
    expectTypeOf(config.opsPort).toEqualTypeOf<number | undefined>();
    expectTypeOf(config.lease).toEqualTypeOf<number>();
    expect(Object.isFrozen(config)).toBe(true);
  });

  test("a setting that is switched off is null, and otherwise its value", () => {
    const every = orOff(duration("FLEET_EVERY", { description, default: "24h", min: "1s" }));
    const read = (value: string) => readConfig({ every }, { FLEET_EVERY: value }).every;
    expect(["off", "OFF", "0", "90s", ""].map(read)).toEqual([null, null, null, 90_000, 86_400_000]);
    expect(() => read("10ms")).toThrow(ConfigError);
    expect(() => read("no")).toThrow(/or off/);
  });

  const cases: [Field<unknown>, string, unknown][] = [
    [fields.port, "1", 1],
    [fields.port, " 65535 ", 65535],
    [fields.port, "0", undefined],
    [fields.port, "65536", undefined],
    [fields.port, "80.5", undefined],
    [fields.port, "0x50", undefined],
    [fields.port, "1e3", undefined],
    [fields.port, "abc", undefined],
    [fields.lease, "1500ms", 1500],
    [fields.lease, "2s", 2_000],
    [fields.lease, "5m", 300_000],
    [fields.lease, "1h", 3_600_000],
    [fields.lease, "7d", undefined],
    [fields.lease, "30", undefined],
    [fields.lease, "-2s", undefined],
    [fields.lease, "1.5s", undefined],
    [fields.pretty, "YES", true],
    [fields.pretty, "off", false],
    [fields.pretty, "maybe", undefined],
    [fields.pretty, "constructor", undefined],
    [fields.level, "debug", "debug"],
    [fields.level, "DEBUG", undefined],
    [fields.servers, " a , b,,c ", ["a", "b", "c"]],
    [fields.store, "fdb:/etc/foundationdb/fdb.cluster", "fdb:/etc/foundationdb/fdb.cluster"],
    [bus, "nats://a:4222,nats://b:4222, tls://c", "nats://a:4222,nats://b:4222, tls://c"],
    [bus, "nats://a:4222,http://b:80", undefined],
    [bus, "nats://a:4222,", undefined],
    [fields.store, "redis://x", undefined],
    [fields.store, "not a url", undefined],
    [fields.token, "short", undefined],
  ];
  test.each(cases)("%# $name reads %j", (field, raw, expected) => {
    const read = () => readConfig({ field }, { [field.name]: raw }).field;
    if (expected === undefined) expect(read).toThrow(ConfigError);
    else expect(read()).toEqual(expected);
  });
});

test.each([
  ["0", 0],
  ["4096", 4_096],
  ["64MiB", 67_108_864],
  ["1.5 gib", 1_610_612_736],
])("a size of %s is %d bytes", (raw, expected) => {
  const fields = { free: bytes("FLEET_FREE", { description, default: 1 }) };
  expect(readConfig(fields, { FLEET_FREE: raw })).toEqual({ free: expected });
});

test.each(["-1", "many", "5 parsecs", "1e9", "9999999TiB"])("%s is no size", (raw) => {
  const fields = { free: bytes("FLEET_FREE", { description, default: 1 }) };
  expect(() => readConfig(fields, { FLEET_FREE: raw })).toThrow("size like 64MiB");
});

describe("problems", () => {
  test("all are reported at once, one line each", () => {
    const error = problemsOf({ FLEET_PORT: "abc", FLEET_LEASE: "30", FLEET_LOG_LEVEL: "loud" });
    expect(error.problems).toEqual([
      { name: "FLEET_PORT", expected: "integer from 1 to 65535", got: '"abc"' },
      { name: "FLEET_LEASE", expected: "duration like 500ms, 2s, 5m, 1h, 7d from 1s to 1h", got: '"30"' },
      { name: "FLEET_LOG_LEVEL", expected: "one of info, debug", got: '"loud"' },
      { name: "FLEET_TOKEN", expected: "text from 8 characters (for the test)", got: "nothing" },
    ]);
    expect(error.message.split("\n")).toHaveLength(5);
    expect(error.message).toContain('  FLEET_PORT: expected integer from 1 to 65535; got "abc"');
    expect(error.exitCode).toBe(78);
  });

  test("neither a secret nor a password inside an address is echoed", () => {
    const error = problemsOf({ FLEET_TOKEN: "hunter2", FLEET_STORE: "nats://user:hunter2@host" });
    expect(error.problems).toHaveLength(2);
    expect(JSON.stringify([error.message, error.problems])).not.toContain("hunter2");
  });

  test("a default that its own field refuses is found at definition", () => {
    expect(() => integer("FLEET_N", { description, default: 0, min: 1 })).toThrow(TypeError);
    expect(() => duration("FLEET_D", { description, default: "30" })).toThrow(TypeError);
  });
});

test("a formatted duration is parsed to the same value", () => {
  fc.assert(fc.property(fc.nat(), (ms) => parseDuration(formatDuration(ms)) === ms));
  expect([0, 999, 60_000, 90_000, 86_400_000].map(formatDuration)).toEqual([
    "0ms",
    "999ms",
    "1m",
    "90s",
    "1d",
  ]);
});

test("a typing mistake is close, another word is not", () => {
  expect(editDistance("FLEET_SOTRE", "FLEET_STORE")).toBe(1);
  expect(editDistance("", "abc")).toBe(3);
  expect(nearestName("FLEET_STOREE", ["FLEET_STORE", "FLEET_PORT"])).toBe("FLEET_STORE");
  expect(nearestName("FLEET_BANANA", ["FLEET_STORE", "FLEET_PORT"])).toBeUndefined();
});
