// The address of a call: from options, then the environment, then the fleet of the folder, then the default port.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { discover, readCaller } from "../../../services/cli/runtime/address.ts";
import { ConfigError } from "../../../shared/runtime/settings/config.ts";

const FOUND = "nats://127.0.0.1:5222";
let home: string;

function addresses(content: unknown): void {
  const text = typeof content === "string" ? content : JSON.stringify(content);
  writeFileSync(join(home, "addresses.json"), text);
}

/** The id of a process that has just ended. */
const endedPid = (): number => spawnSync(process.execPath, ["--version"]).pid;

beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), "fleet-address-"));
});
afterAll(() => rmSync(home, { recursive: true, force: true }));

describe("the bus", () => {
  test("options win over the environment, and that over the folder's fleet", () => {
    addresses({ busUrl: FOUND, pid: process.pid });
    const env = { FLEET_URL: "nats://b:1", FLEET_HOME: home };
    expect(discover({ url: "nats://a:1" }, env)).toEqual({ url: "nats://a:1", origin: "from --url" });
    expect(discover({}, env)).toEqual({ url: "nats://b:1", origin: "from FLEET_URL" });
    expect(discover({}, { FLEET_HOME: home })).toEqual({
      url: FOUND,
      origin: `from ${join(home, "addresses.json")}`,
    });
  });

  test("a record is the fleet of its folder, whether the fleet runs or not", () => {
    const fleet = "0123456789abcdef";
    const origin = `from ${join(home, "addresses.json")}`;
    for (const pid of [process.pid, endedPid()]) {
      addresses({ busUrl: FOUND, busCa: "/ca.pem", fleet, pid });
      const found = { url: FOUND, origin, caFile: "/ca.pem", expected: { fleet, home } };
      expect(discover({}, { FLEET_HOME: home })).toEqual(found);
    }
  });

  test.each([
    ["of a process that has ended", () => endedPid()],
    ["without a process", () => undefined],
    ["of a group of processes", () => 0],
  ])("a record without an identity, %s, is not connected to", (_, pid) => {
    addresses({ busUrl: FOUND, pid: pid() });
    expect(discover({}, { FLEET_HOME: home })).toMatchObject({ url: FOUND, isStale: true });
  });

  test.each([
    ["without an address", { pid: process.pid }],
    ["with an invalid address", { busUrl: "x", pid: process.pid }],
    ["that is half written", '{"busUrl":'],
    ["that is null", "null"],
  ])("a record %s is refused, and no port is assumed", (_, content) => {
    addresses(content);
    expect(() => discover({}, { FLEET_HOME: home })).toThrow(/FLEET_HOME: expected .* record can be read/);
  });

  test("only without a record the default port is assumed", () => {
    expect(discover({}, { FLEET_HOME: join(home, "nowhere") })).toEqual({
      url: "nats://127.0.0.1:4222",
      origin: "the default",
      isAssumed: true,
    });
  });

  test.each(["http://h:1", "amqp://h", "nats://a:1,http://b:1"])("--url %s has the wrong scheme", (url) => {
    expect(() => discover({ url }, {})).toThrow(/^--url has the wrong scheme: (http|amqp)$/);
  });
  test.each(["nats://h:1", "TLS://h", "ws://h", "wss://h", "nats://a:1,nats://b:1", "h:4222"])(
    "--url %s is accepted",
    (url) => expect(discover({ url }, {}).url).toBe(url),
  );
});

describe("tenant and agent", () => {
  test("every wrong variable is named at once", () => {
    const env = { FLEET_URL: "http://h:1", FLEET_TENANT: "a.b", FLEET_AGENT_ID: "x".repeat(65) };
    const problems = () => {
      try {
        return readCaller({}, env);
      } catch (error) {
        return error instanceof ConfigError ? error.problems.map(({ name }) => name) : error;
      }
    };
    expect(problems()).toEqual(["FLEET_URL", "FLEET_TENANT", "FLEET_AGENT_ID"]);
  });
  test("options win", () => {
    const env = { FLEET_TENANT: "t", FLEET_AGENT_ID: "a" };
    expect(readCaller({}, env)).toBe("a");
    expect(readCaller({ tenant: "u", agent: "b" }, env)).toBe("b");
    expect(readCaller({}, {})).toBeUndefined();
    expect(() => readCaller({ agent: "a b" }, {})).toThrow("--agent is not a valid name");
  });
  test("a person is named by an option or a variable, and an agent wins over a person", () => {
    expect(readCaller({ person: "ada" }, { FLEET_AGENT_ID: "a" })).toBe("human=ada");
    expect(readCaller({}, { FLEET_PERSON: "ada" })).toBe("human=ada");
    expect(readCaller({}, { FLEET_PERSON: "ada", FLEET_AGENT_ID: "a" })).toBe("a");
    expect(() => readCaller({ person: "a=b" }, {})).toThrow("--person is not a valid name");
    expect(() => readCaller({ person: "ada", agent: "a" }, {})).toThrow("exclude each other");
  });
});
