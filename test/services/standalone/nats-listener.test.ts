// The listener of the standalone fleet's bus: its addresses, its certificate, and the settings with which it does not start.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type ListenerSettings,
  readListener,
  readOwnListener,
} from "../../../services/standalone/nats/listener.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { isLoopback } from "../../../shared/runtime/loopback.ts";
import { StartupError } from "../../../shared/runtime/process/startup.ts";
import { makeAuthority, makeCertificate } from "../../harness/certificates.ts";
import { startNats, testLog } from "../../harness/processes/nats.ts";

const dir = mkdtempSync(join(tmpdir(), "fleet-listener-"));
const file = (name: string) => join(dir, name);
const LAN = "192.168.1.5";

const settings = (more: Partial<ListenerSettings> = {}): ListenerSettings => ({
  natsHost: "127.0.0.1",
  auth: "on",
  ...more,
});
const pair = (name = "server") => ({ natsCert: file(`${name}.pem`), natsKey: file(`${name}.key`) });

function refusal(more: Partial<ListenerSettings>): string {
  try {
    if (readOwnListener(settings(more)) === undefined) readListener(settings(more));
  } catch (error) {
    if (error instanceof StartupError) return `${error.exitCode} ${error.message}; ${error.hint}`;
    throw error;
  }
  throw new Error("the settings were accepted");
}

beforeAll(() => {
  makeAuthority(dir, "ca");
  makeCertificate(dir, "server", { names: "DNS:localhost,DNS:fleet.example,IP:127.0.0.1" });
  makeCertificate(dir, "expired", { days: 0 });
  writeFileSync(file("text.pem"), "no certificate");
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

test.each(["127.0.0.1", "127.0.0.2", "127.255.255.255", "::1", "::ffff:127.0.0.1", "localhost", "LOCALHOST"])(
  "%s is loopback and needs neither TLS nor credentials",
  (natsHost) => {
    expect(isLoopback(natsHost)).toBe(true);
    expect(readListener(settings({ natsHost, auth: "off" }))).toEqual({ host: natsHost, tls: undefined });
  },
);

describe.each([
  "0.0.0.0",
  "::",
  LAN,
  "fd00::1",
  "::ffff:10.0.0.1",
  "fleet.example",
  "localhost.example",
  "0",
  "127.1",
])("a listener at %s", (natsHost) => {
  test("needs TLS", () => {
    expect(isLoopback(natsHost)).toBe(false);
    for (const auth of ["on", "off"] as const)
      expect(refusal({ natsHost, auth })).toMatch(
        /^78 .*needs TLS; set FLEET_NATS_SERVER_CERT and FLEET_NATS_SERVER_KEY/,
      );
  });
  test("needs credentials", () => {
    const more = { natsHost, natsName: "fleet.example", ...pair() };
    expect(readListener(settings(more)).tls?.name).toBe("fleet.example");
    expect(refusal({ ...more, auth: "off" })).toMatch(/^78 .*needs credentials; remove FLEET_AUTH=off/);
  });
});

test("brackets around an IPv6 address are removed", () => {
  expect(readListener(settings({ natsHost: "[::1]" })).host).toBe("::1");
  expect(refusal({ natsHost: "[::]" })).toMatch(/needs TLS/);
});

describe("the host name of the certificate", () => {
  test.each([
    ["fleet.example", undefined, "fleet.example"],
    ["localhost", undefined, "localhost"],
    ["127.0.0.1", undefined, "localhost"],
    ["0.0.0.0", undefined, "localhost"],
    ["::", "fleet.example", "fleet.example"],
    [LAN, "fleet.example", "fleet.example"],
  ])("of a listener at %s, with the setting %s, is %s", (natsHost, natsName, name) => {
    expect(readListener(settings({ natsHost, natsName, ...pair() })).tls?.name).toBe(name);
  });
  test.each([
    [LAN, undefined],
    ["127.0.0.2", undefined],
    ["127.0.0.1", "127.0.0.1"],
    ["0.0.0.0", "other.example"],
    ["other.example", undefined],
  ])("a listener at %s, with the setting %s, has none", (natsHost, natsName) => {
    expect(refusal({ natsHost, natsName, ...pair() })).toMatch(/does not cover .*FLEET_NATS_SERVER_NAME/);
  });
});

test.each([
  ["a certificate without a key", () => ({ natsCert: file("server.pem") }), /both a certificate and its key/],
  ["a key without a certificate", () => ({ natsKey: file("server.key") }), /both a certificate and its key/],
  ["another key", () => ({ ...pair(), natsKey: file("ca.key") }), /key is not that of/],
  ["an expired certificate", () => pair("expired"), /has expired/],
  ["a missing file", () => pair("none"), /cannot be used/],
  ["a file without a certificate", () => ({ ...pair(), natsCert: file("text.pem") }), /cannot be used/],
  ["a missing authority", () => ({ ...pair(), tlsCa: file("none.pem") }), /cannot be used/],
])("%s is refused", (_, more, message) => {
  expect(refusal(more())).toMatch(message);
});

describe("a fleet that makes its own certificate", () => {
  const own = (more: Partial<ListenerSettings> = {}) =>
    readOwnListener(settings({ natsHost: "0.0.0.0", natsCert: "auto", ...more }));
  test("covers loopback, this machine and the names of the settings", () => {
    const usual = ["localhost", "127.0.0.1", "::1", hostname()];
    expect(own()).toEqual({ host: "0.0.0.0", name: "localhost", hosts: usual });
    const names = { natsName: "fleet.example", natsNames: ["10.0.0.9", "localhost", "my_fleet"] };
    expect(own(names)).toMatchObject({
      name: "fleet.example",
      hosts: [...usual, "fleet.example", "10.0.0.9", "my_fleet"],
    });
    expect(own({ natsHost: LAN, natsName: "fleet.example" })?.hosts).toEqual([
      ...usual,
      "fleet.example",
      LAN,
    ]);
  });
  test("is one only with its setting", () => {
    expect(readOwnListener(settings(pair()))).toBeUndefined();
    expect(readOwnListener(settings())).toBeUndefined();
  });
  test.each([
    ["without credentials", { auth: "off" }, /needs credentials/],
    ["with a key", { natsKey: "server.key" }, /key is not that of the fleet's own/],
    ["without a host name", { natsHost: LAN }, /needs a host name.*FLEET_NATS_SERVER_NAME/],
    ["with an address as its name", { natsName: LAN }, /needs a host name/],
    ["with a wrong name", { natsNames: ["two words"] }, /not a host name.*FLEET_NATS_SERVER_NAMES/],
  ] as const)("%s does not start", (_, more, message) => {
    expect(refusal({ natsHost: "0.0.0.0", natsCert: "auto", ...more })).toMatch(message);
  });
});

test("a server with a certificate accepts only programs that trust it", async () => {
  const listener = readListener(settings({ natsHost: "0.0.0.0", tlsCa: file("ca.pem"), ...pair() }));
  const server = await startNats({ listener });
  try {
    expect(server.url).toMatch(/^tls:\/\/localhost:\d+$/);
    expect(readFileSync(join(server.dir, "nats.conf"), "utf8")).toContain('min_version: "1.2"');
    const program = { url: server.url, name: "test", identity: "test", log: testLog };
    await (await connectBus({ ...program, tls: { caFile: file("ca.pem") } })).close();
    await expect(connectBus(program)).rejects.toThrow();
  } finally {
    await server.stop();
  }
});
