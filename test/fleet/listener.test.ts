// A standalone fleet whose bus other machines can reach: it starts only with TLS and credentials, and the programs of its
// user work without further settings.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connect } from "../../shared/sdk/sdk.ts";
import { makeAuthority, makeCertificate } from "../harness/certificates.ts";
import { startFleet, type TestFleet } from "../harness/processes/fleet.ts";
import { input } from "../harness/records/records.ts";
import { callCli } from "../services/cli/call.ts";

/** Each call is a process of its own, and a busy machine takes seconds to start one. */
const PROCESSES_MS = 90_000;

const dir = mkdtempSync(join(tmpdir(), "fleet-listener-"));
const file = (name: string) => join(dir, name);
let server: TestFleet;

const fleet = (line: string, env: Record<string, string> = {}) =>
  callCli(line.split(" "), { env: { FLEET_HOME: server.home, ...env } });

beforeAll(async () => {
  makeAuthority(dir, "ca");
  makeAuthority(dir, "stranger");
  makeCertificate(dir, "server");
  server = await startFleet({
    FLEET_NATS_HOST: "0.0.0.0",
    FLEET_NATS_SERVER_CERT: file("server.pem"),
    FLEET_NATS_SERVER_KEY: file("server.key"),
    FLEET_NATS_CA: file("ca.pem"),
  });
}, PROCESSES_MS);
afterAll(async () => {
  await server?.stop();
  rmSync(dir, { recursive: true, force: true });
});

test.each([
  ["without TLS", { FLEET_NATS_HOST: "0.0.0.0" }, /needs TLS.*FLEET_NATS_SERVER_CERT/],
  [
    "without credentials",
    () => ({
      FLEET_NATS_HOST: "0.0.0.0",
      FLEET_AUTH: "off",
      FLEET_NATS_SERVER_CERT: file("server.pem"),
      FLEET_NATS_SERVER_KEY: file("server.key"),
    }),
    /needs credentials.*FLEET_AUTH/,
  ],
  [
    "whose own services do not trust its certificate",
    () => ({
      FLEET_NATS_HOST: "0.0.0.0",
      FLEET_NATS_SERVER_CERT: file("server.pem"),
      FLEET_NATS_SERVER_KEY: file("server.key"),
    }),
    /cannot be reached.*set FLEET_NATS_CA to the authority/,
  ],
])(
  "a fleet beyond loopback %s does not start",
  async (_, env, message) => {
    const more = typeof env === "function" ? env() : env;
    await expect(startFleet(more)).rejects.toThrow(message);
  },
  PROCESSES_MS,
);

test(
  "programs of the fleet's user need no setting",
  async () => {
    const home = { FLEET_HOME: server.home };
    const addresses = JSON.parse(readFileSync(join(server.home, "addresses.json"), "utf8"));
    expect(addresses).toMatchObject({ busUrl: server.url, busCa: file("ca.pem") });
    expect(server.url).toMatch(/^tls:\/\/localhost:\d+$/);
    const client = await connect({ env: home, agentId: "coder", fallback: "none" });
    const written = await client.createCheckpoint({ taskId: "over-tls", checkpoint: input({}) });
    expect(written.outcome).toBe("committed");
    await client.close();
    const shown = await fleet("task show over-tls --json");
    expect({ exit: shown.exit, err: shown.err }).toEqual({ exit: 0, err: "" });
    // A revocation reaches the running server.
    await fleet(`access issue --agent guest --out ${file("guest.creds")}`);
    expect(JSON.parse((await fleet("access revoke guest --json")).out)).toMatchObject({ applied: true });
    const again = await fleet("up --json");
    expect(JSON.parse(again.out)).toMatchObject({ running: true, url: server.url });
  },
  PROCESSES_MS,
);

test(
  "another user needs the authority and a credentials file",
  async () => {
    await fleet(`access issue --agent ada --role operator --out ${file("ada.creds")}`);
    const elsewhere = { FLEET_HOME: file("elsewhere"), FLEET_URL: server.url };
    const credentials = { FLEET_NATS_CREDS: file("ada.creds") };
    const exit = async (env: Record<string, string>) =>
      (await fleet("status --json", { ...elsewhere, ...env })).exit;
    expect(await exit({ ...credentials, FLEET_NATS_CA: file("ca.pem") })).toBe(0);
    expect(await exit({ FLEET_NATS_CA: file("ca.pem") })).not.toBe(0);
    expect(await exit(credentials)).not.toBe(0);
    const stranger = { ...credentials, FLEET_NATS_CA: file("stranger.pem") };
    const refused = await fleet("status", { ...elsewhere, ...stranger });
    expect(refused).toMatchObject({
      exit: 69,
      err: expect.stringMatching(/certificate .*is not trusted.*FLEET_NATS_CA/s),
    });
  },
  PROCESSES_MS,
);

test("the file with the addresses holds no secret", () => {
  const names = Object.keys(JSON.parse(readFileSync(join(server.home, "addresses.json"), "utf8")));
  const known = ["busCa", "busUrl", "fleet", "gatewayUrl", "home", "opsUrl", "pid", "storeUrl"];
  expect(names.sort()).toEqual(known);
});
