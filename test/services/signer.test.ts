// The signing service with a local issuer and a real nats-server: a token gives the rights of its role until it expires, and
// every other token is refused.

import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type ConnectionOptions,
  connect,
  credsAuthenticator,
  type NatsConnection,
} from "@nats-io/transport-node";
import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT } from "jose";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { issueGrant } from "../../shared/bus/access/administration.ts";
import { writeClusterFiles } from "../../shared/bus/access/cluster.ts";
import { connect as connectSdk } from "../../shared/sdk/sdk.ts";
import { startClusterNats } from "../harness/cluster-nats.ts";
import { probesOf, refusedOf } from "../harness/permission-probes.ts";
import { startService, type TestService } from "../harness/processes/services.ts";
import { projectRoot } from "../harness/project-root.ts";

const PROCESSES_MS = 60_000;
const AUDIENCE = "fleet";
const SECOND = "urn:example:second";
const KUBERNETES = "https://kubernetes.default.svc.cluster.local";
const folder = mkdtempSync(join(tmpdir(), "fleet-signer-"));
const file = (name: string) => join(folder, name);
const dir = file("cluster");
const keys = file("access");

type Pair = Awaited<ReturnType<typeof generateKeyPair>>;
let pair: Pair;
let stranger: Pair;
let issuer: Server;
let issuerUrl: string;
let nats: Awaited<ReturnType<typeof startClusterNats>>;
let url: string;
let signer: TestService;
let opsUrl: string;
/** The requests for keys. */
const asked: (string | undefined)[] = [];
let isIssuerDown = false;

interface TokenOptions {
  readonly claims?: Record<string, unknown>;
  readonly key?: Pair;
  readonly alg?: string;
  readonly expires?: string | number;
  readonly audience?: string;
  readonly issuer?: string;
}

const CLAIMS = { org: "AcMe", login: "Ada-1", "fleet.example/roles": { fleet: "developers" } };

function tokenOf(o: TokenOptions = {}): Promise<string> {
  return new SignJWT({ ...CLAIMS, ...o.claims })
    .setProtectedHeader({ alg: o.alg ?? "ES256", kid: "1" })
    .setIssuer(o.issuer ?? issuerUrl)
    .setAudience(o.audience ?? AUDIENCE)
    .setIssuedAt()
    .setExpirationTime(o.expires ?? "5m")
    .sign((o.key ?? pair).privateKey);
}

const open = (more: ConnectionOptions = {}): Promise<NatsConnection> =>
  connect({ servers: url, reconnect: false, inboxPrefix: "_INBOX.AcMe.Ada-1", ...more });
const outcome = (more: ConnectionOptions): Promise<string> =>
  open(more).then(
    async (connection) => {
      await connection.close();
      return "connected";
    },
    (error: unknown) => String(error),
  );
const outcomeOf = async (token: string | Promise<string>) => outcome({ token: await token });
const withFile = (credentials: string) => ({ authenticator: credsAuthenticator(Buffer.from(credentials)) });
const issued = async (name: string) =>
  (await issueGrant(keys, { role: "agent", tenant: "AcMe", name, expiresAt: null, now: new Date() }))
    .credentials;

/** The outcomes that the service has counted. */
async function counted(): Promise<Record<string, number>> {
  const text = await (await fetch(`${opsUrl}/metrics`)).text();
  return Object.fromEntries(
    [...text.matchAll(/^fleet_signer_requests_total\{.*outcome="(\w+)".*\} (\d+)/gm)].map(
      ([, name, count]) => [name, Number(count)],
    ),
  );
}

const settings = () => ({
  issuers: [
    {
      issuer: issuerUrl,
      keys_url: `${issuerUrl}/keys`,
      keys_token_file: file("own-token"),
      audience: AUDIENCE,
      algorithms: ["ES256"],
      tenant: { claim: "org" },
      name: { claim: "login" },
      role: {
        claim: ["fleet.example/roles", "fleet"],
        values: { developers: "agent", watchers: "observer", guides: "orchestrator" },
      },
      roles: ["agent", "observer", "orchestrator"],
    },
    // Another issuer with the same keys gives less.
    {
      issuer: SECOND,
      keys_url: `${issuerUrl}/keys`,
      audience: AUDIENCE,
      tenant: { value: "second" },
      name: { claim: "login" },
      person: true,
      role: { claim: "role" },
      roles: ["observer"],
    },
    {
      issuer: KUBERNETES,
      keys_url: `${issuerUrl}/keys`,
      audience: AUDIENCE,
      tenant: { claim: ["kubernetes.io", "namespace"] },
      name: { claim: ["kubernetes.io", "serviceaccount", "name"] },
      role: { value: "agent" },
    },
  ],
});

const environment = () => ({
  FLEET_URL: url,
  FLEET_NATS_CREDS: join(dir, "signer.creds"),
  FLEET_SIGNER_KEYS: file("signer.keys"),
  FLEET_SIGNER_CONFIG: file("signer.json"),
});

async function startSigner(): Promise<void> {
  signer = await startService("signer", environment());
  const line = signer.output().match(/^.*operations port open.*$/m)?.[0] ?? "{}";
  opsUrl = `http://127.0.0.1:${(JSON.parse(line) as { port: number }).port}`;
}

const untilReady = () =>
  vi.waitFor(async () => expect((await fetch(`${opsUrl}/readyz`)).status).toBe(200), 10_000);

beforeAll(async () => {
  pair = await generateKeyPair("ES256", { extractable: true });
  stranger = await generateKeyPair("ES256", { extractable: true });
  const jwk = { ...(await exportJWK(pair.publicKey)), kid: "1", alg: "ES256", use: "sig" };
  issuer = createServer((request, response) => {
    asked.push(request.headers.authorization);
    if (isIssuerDown) return void request.socket.destroy();
    response.end(JSON.stringify({ keys: [jwk] }));
  });
  await new Promise<void>((done) => issuer.listen(0, "127.0.0.1", done));
  issuerUrl = `http://127.0.0.1:${(issuer.address() as AddressInfo).port}`;
  writeFileSync(file("own-token"), "of the service\n");
  writeFileSync(file("signer.json"), JSON.stringify(settings()));
  await writeClusterFiles({
    keys,
    dir,
    signer: true,
    serverConfig: readFileSync(join(projectRoot, "deploy/nats/nats.conf"), "utf8"),
    now: new Date(),
  });
  nats = await startClusterNats(dir, folder);
  url = nats.url;
  // An administrator has removed the roles that the service must not issue.
  const all = JSON.parse(readFileSync(join(dir, "signer.keys"), "utf8"));
  const { agent, observer } = all.roles;
  writeFileSync(file("signer.keys"), JSON.stringify({ ...all, roles: { agent, observer } }), { mode: 0o600 });
  await startSigner();
  await untilReady();
}, PROCESSES_MS);

afterAll(async () => {
  await signer?.kill9();
  nats?.kill();
  issuer?.close();
  rmSync(folder, { recursive: true, force: true });
});

test("a valid token gives exactly the rights of its role, as a credentials file does", async () => {
  const probes = probesOf("AcMe", "Ada-1");
  const token = await tokenOf();
  const byToken = await refusedOf(await open({ token }), probes);
  const byFile = await refusedOf(await open(withFile(await issued("Ada-1"))), probes);
  expect([...byToken].toSorted()).toEqual([...byFile].toSorted());
  expect(byToken.size).toBeGreaterThan(probes.length / 4);
  expect(byToken.size).toBeLessThan(probes.length - 3);
  const watcher = await tokenOf({ claims: { "fleet.example/roles": { fleet: "watchers" } } });
  const byWatcher = await refusedOf(await open({ token: watcher }), probes);
  expect(byWatcher).toContain("publish fleet.cmd.AcMe.Ada-1.some.create");
  expect(byWatcher).not.toContain("subscribe fleet.alert.AcMe.some.rest");
  expect(asked).toContain("Bearer of the service");
});

test("a person has the name and the tenant of their issuer", async () => {
  const token = await tokenOf({ issuer: SECOND, claims: { role: "observer" } });
  const probes = probesOf("second", "human=Ada-1");
  const refused = await refusedOf(await open({ token, inboxPrefix: "_INBOX.second.human=Ada-1" }), probes);
  expect(refused).not.toContain("publish fleet.query.second.human=Ada-1.status");
  expect(refused).toContain("publish fleet.query.second.other.status");
  expect(refused).toContain("publish fleet.cmd.second.human=Ada-1.some.create");
});

test("a service account of Kubernetes is an agent in the tenant of its namespace", async () => {
  const claims = {
    "kubernetes.io": {
      namespace: "team-a",
      pod: { name: "coder-7-x5k2p", uid: "2cd0e1a4" },
      serviceaccount: { name: "coder-7", uid: "74a1a7f9" },
    },
    sub: "system:serviceaccount:team-a:coder-7",
  };
  const token = await tokenOf({ issuer: KUBERNETES, claims });
  const connection = await open({ token, inboxPrefix: "_INBOX.team-a.coder-7" });
  const refused = await refusedOf(connection, probesOf("team-a", "coder-7"));
  expect(refused).not.toContain("publish fleet.cmd.team-a.coder-7.some.create");
  expect(refused).toContain("publish fleet.cmd.team-a.other.some.create");
  expect(refused).toContain("publish fleet.cmd.other.coder-7.some.create");
});

test("a connection ends with its token", async () => {
  const connection = await open({ token: await tokenOf({ expires: Math.floor(Date.now() / 1_000) + 5 }) });
  expect(String(await connection.closed())).toMatch(/expired/i);
}, 20_000);

test("a program reads its token again when it reconnects", async () => {
  const path = file("token");
  writeFileSync(path, `${await tokenOf({ expires: Math.floor(Date.now() / 1_000) + 5 })}\n`);
  const env = { FLEET_URL: url, FLEET_HOME: file("elsewhere"), FLEET_NATS_TOKEN_FILE: path };
  const before = (await counted()).issued ?? 0;
  const options = { env, agentId: "Ada-1", tenant: "AcMe", fallback: "none" } as const;
  const client = await connectSdk(options);
  writeFileSync(path, await tokenOf());
  await vi.waitFor(async () => expect((await counted()).issued).toBe(before + 2), 20_000);
  await client.close();
  rmSync(path);
  await expect(connectSdk(options)).rejects.toThrow();
}, 40_000);

test("a token is not sent to another machine without TLS", async () => {
  const env = { FLEET_URL: "nats://bus.example:4222", FLEET_NATS_TOKEN_FILE: file("unsent-token") };
  const refusal = { code: "INVALID", fields: [{ path: "FLEET_NATS_TOKEN_FILE" }] };
  await expect(connectSdk({ env, agentId: "coder", fallback: "none" })).rejects.toMatchObject(refusal);
});

describe("a token is refused", () => {
  const role = (fleet: unknown) => ({ claims: { "fleet.example/roles": { fleet } } });
  test.each<[string, string, () => string | Promise<string>]>([
    ["that is missing", "no_token", () => ""],
    ["that is no token", "form", () => "secret"],
    ["that has expired", "expired", () => tokenOf({ expires: Math.floor(Date.now() / 1_000) - 60 })],
    ["for another audience", "audience", () => tokenOf({ audience: "other" })],
    ["of another issuer", "issuer", () => tokenOf({ issuer: "https://other.example" })],
    ["with another signature", "signature", () => tokenOf({ key: stranger })],
    [
      "without a signature",
      "algorithm",
      () =>
        new UnsecuredJWT(CLAIMS).setIssuer(issuerUrl).setAudience(AUDIENCE).setExpirationTime("5m").encode(),
    ],
    [
      "with the public key as a secret",
      "algorithm",
      async () =>
        new SignJWT(CLAIMS)
          .setProtectedHeader({ alg: "HS256", kid: "1" })
          .setIssuer(issuerUrl)
          .setAudience(AUDIENCE)
          .setExpirationTime("5m")
          .sign(Buffer.from(JSON.stringify(await exportJWK(pair.publicKey)))),
    ],
    [
      "without an end",
      "claims",
      () =>
        new SignJWT(CLAIMS)
          .setProtectedHeader({ alg: "ES256", kid: "1" })
          .setIssuer(issuerUrl)
          .setAudience(AUDIENCE)
          .sign(pair.privateKey),
    ],
    ["with an unknown role", "role", () => tokenOf(role("strangers"))],
    [
      "with a role that its issuer may not give",
      "role",
      () => tokenOf({ issuer: SECOND, claims: { role: "operator" } }),
    ],
    ["with a role whose key the service does not have", "role", () => tokenOf(role("guides"))],
    ["with a role out of the prototype", "role", () => tokenOf(role("constructor"))],
    ["without a role", "role", () => tokenOf(role(undefined))],
    ["with a wildcard as its name", "name", () => tokenOf({ claims: { login: "*" } })],
    ["with the name of a person", "name", () => tokenOf({ claims: { login: "human=ada" } })],
    ["without a name", "name", () => tokenOf({ claims: { login: undefined } })],
    ["with two tokens as its tenant", "tenant", () => tokenOf({ claims: { org: "a.b" } })],
    ["with the tenant of the services", "tenant", () => tokenOf({ claims: { org: "=" } })],
  ])("%s", async (_, reason, make) => {
    const token = await make();
    const before = (await counted())[reason] ?? 0;
    expect(await outcomeOf(token)).toMatch(/authorization/i);
    expect((await counted())[reason]).toBe(before + 1);
    // Neither the log nor the refusal repeats a token.
    if (token !== "") expect(signer.output()).not.toContain(token);
  });
});

test("the sentinel alone, and credentials of the service, open nothing else", async () => {
  const own = withFile(readFileSync(join(dir, "signer.creds"), "utf8"));
  const connection = await open({ ...own, inboxPrefix: "_INBOX.=signer.test" });
  const refused = await refusedOf(connection, probesOf("AcMe", "Ada-1"));
  expect(
    new Set(probesOf("AcMe", "Ada-1").map(({ direction, subject }) => `${direction} ${subject}`)),
  ).toEqual(refused);
});

test("only their user can read the files, and a repetition keeps the service", async () => {
  const before = readFileSync(join(dir, "signer.keys"), "utf8");
  const serverConfig = readFileSync(join(projectRoot, "deploy/nats/nats.conf"), "utf8");
  const files = await writeClusterFiles({ keys, dir, serverConfig, now: new Date() });
  expect(files).toContain(join(dir, "signer.keys"));
  expect(readFileSync(join(dir, "signer.keys"), "utf8")).toBe(before);
  expect(readFileSync(join(dir, "access.conf"), "utf8")).toContain("default_sentinel");
  for (const name of readdirSync(dir)) expect(statSync(join(dir, name)).mode & 0o777, name).toBe(0o600);
  // Neither the key of the operator nor that of the fleet's account is among them.
  for (const name of ["operator", "account"])
    expect(before).not.toContain(readFileSync(join(keys, `${name}.nk`), "utf8"));
  expect(readFileSync(join(dir, "access.conf"), "utf8")).not.toMatch(/\bS[AOUX][A-Z2-7]{56}\b/);
});

test("keys that other users can read are refused", async () => {
  const path = file("open.keys");
  writeFileSync(path, readFileSync(join(dir, "signer.keys"), "utf8"));
  chmodSync(path, 0o644);
  const start = (env: Record<string, string>) => startService("signer", { ...environment(), ...env });
  await expect(start({ FLEET_SIGNER_KEYS: path })).rejects.toThrow(/other users can read it/);
});

test("a service with other credentials than its own does not start", async () => {
  const path = file("agent.creds");
  writeFileSync(path, await issued("Ada-1"));
  const start = startService("signer", { ...environment(), FLEET_NATS_CREDS: path });
  await expect(start).rejects.toThrow(/bus cannot be reached/);
});

test("mistakes in the settings are all named", async () => {
  const path = file("wrong.json");
  const [first] = settings().issuers;
  const wrong = { ...first, keys_url: "http://login.example/keys", algorithms: ["HS256"], roles: ["agent"] };
  writeFileSync(path, JSON.stringify({ issuers: [wrong] }));
  const start = startService("signer", { ...environment(), FLEET_SIGNER_CONFIG: path });
  await expect(start).rejects.toThrow(/keys_url: expected an https URL[\s\S]*algorithms/);
});

test(
  "without its issuer a service that has no keys is not ready and refuses, until the issuer is back",
  async () => {
    expect((await fetch(`${opsUrl}/readyz`)).status).toBe(200);
    await signer.kill9();
    isIssuerDown = true;
    await startSigner();
    expect((await fetch(`${opsUrl}/readyz`)).status).toBe(503);
    expect(await outcomeOf(tokenOf())).toMatch(/authorization/i);
    expect(await counted()).toEqual({ issuer_unavailable: 1 });
    isIssuerDown = false;
    await untilReady();
    expect(await outcomeOf(tokenOf())).toBe("connected");
  },
  PROCESSES_MS,
);

test(
  "while no service runs, holders of files work and holders of tokens cannot connect",
  async () => {
    const connected = await open({ token: await tokenOf() });
    await signer.kill9();
    expect(await outcome(withFile(await issued("Ada-1")))).toBe("connected");
    // An open connection does not depend on the service.
    await connected.flush();
    await connected.close();
    expect(await outcomeOf(tokenOf())).not.toBe("connected");
    await startSigner();
    expect(await outcomeOf(tokenOf())).toBe("connected");
  },
  PROCESSES_MS,
);
