/** The gateway as a process of its own, with TLS, beside the nats-server of a cluster and the signing service. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, credsAuthenticator } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { writeClusterFiles } from "../../../shared/bus/access/cluster.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { makeAuthority, makeCertificate } from "../../harness/certificates.ts";
import { startClusterNats } from "../../harness/cluster-nats.ts";
import { startService, type TestService } from "../../harness/processes/services.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { AUDIENCE, startTokenIssuer, type TokenIssuer } from "../../harness/token-issuer.ts";

const folder = mkdtempSync(join(tmpdir(), "fleet-gateway-"));
const file = (name: string) => join(folder, name);
const cluster = file("cluster");
let issuer: TokenIssuer;
let nats: Awaited<ReturnType<typeof startClusterNats>>;
let signer: TestService;
let gateway: TestService;
let url: string;

const start = (env: Record<string, string> = {}): Promise<TestService> =>
  startService("gateway", {
    FLEET_URL: nats.url,
    FLEET_GATEWAY_KEYS: file("keys"),
    FLEET_GATEWAY_ISSUERS: file("issuers.json"),
    FLEET_GATEWAY_CERT: file("server.pem"),
    FLEET_GATEWAY_KEY: file("server.key"),
    ...env,
  });

beforeAll(async () => {
  makeAuthority(folder, "ca");
  makeCertificate(folder, "server", { names: "IP:127.0.0.1" });
  issuer = await startTokenIssuer();
  const claims = { tenant: { value: "acme" }, name: { claim: "login" }, role: { claim: "role" } };
  const own = { issuer: issuer.url, keys_url: issuer.url, audience: AUDIENCE, ...claims };
  writeFileSync(
    file("issuers.json"),
    JSON.stringify({ issuers: [{ ...own, roles: ["agent", "observer"] }] }),
  );
  const serverConfig = readFileSync(join(projectRoot, "deploy/nats/nats.conf"), "utf8");
  await writeClusterFiles({
    keys: file("access"),
    dir: cluster,
    signer: true,
    serverConfig,
    now: new Date(),
  });
  nats = await startClusterNats(cluster, folder);
  signer = await startService("signer", {
    FLEET_URL: nats.url,
    FLEET_NATS_CREDS: join(cluster, "signer.creds"),
    FLEET_SIGNER_KEYS: join(cluster, "signer.keys"),
    FLEET_SIGNER_CONFIG: file("issuers.json"),
  });
  gateway = await start();
  url = /"url":"(https:[^"]+)"/.exec(gateway.output())?.[1] ?? "";
}, 60_000);

afterAll(async () => {
  await gateway?.kill9();
  await signer?.kill9();
  nats?.kill();
  issuer?.close();
  rmSync(folder, { recursive: true, force: true });
});

const tokenOf = (role: string, login = "ada") => issuer.token({ claims: { role, login } });

async function status(path: string, headers: Record<string, string> = {}, method = "GET"): Promise<number> {
  const ca = readFileSync(file("ca.pem"));
  return new Promise((resolve, reject) => {
    const sent = request(`${url}/api/v1${path}`, { ca, method, headers, agent: false }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    sent.once("error", reject).end();
  });
}

test("the signing service gives the rights of a token, and the gateway has none of its own", async () => {
  const as = async (role: string) => ({ authorization: `Bearer ${await tokenOf(role)}` });
  await expect.poll(async () => status("/caller", await as("observer"))).toBe(200);
  // Permitted, but no writer runs; and refused by the bus.
  expect(await status("/tasks/any-1/take", await as("agent"), "POST")).toBe(503);
  expect(await status("/tasks/any-1/take", await as("observer"), "POST")).toBe(403);
  expect(await status("/caller")).toBe(401);
  expect(await status("/caller", { authorization: `Bearer ${await tokenOf("operator")}` })).toBe(401);
}, 60_000);

test("the trace of a request crosses the bus", async () => {
  const trace = "0af7651916cd43dd8448eb211c80319c";
  const authenticator = credsAuthenticator(readFileSync(join(cluster, "reader.creds")));
  const listener = await connect({ servers: nats.url, authenticator, inboxPrefix: "_INBOX.=reader.test" });
  onTestFinished(() => listener.close());
  const seen: string[] = [];
  listener.subscribe(SUBJECTS.everyQuery, {
    callback: (_, { headers }) => void seen.push(headers?.get("traceparent") ?? "none"),
  });
  await listener.flush();
  const authorization = `Bearer ${await tokenOf("observer")}`;
  const traceparent = `00-${trace}-b7ad6b7169203331-01`;
  // Nothing answers the query.
  void status("/tasks", { authorization, traceparent }).catch(() => {});
  // The report of a refusal above may come before it.
  await expect.poll(() => seen.join(" "), { timeout: 30_000 }).toContain(trace);
});

test("without TLS it does not start beyond loopback, and with half of a certificate nowhere", async () => {
  const none = { FLEET_GATEWAY_CERT: "", FLEET_GATEWAY_KEY: "" };
  await expect(start({ ...none, FLEET_GATEWAY_HOST: "0.0.0.0" })).rejects.toThrow(
    /beyond loopback needs TLS/,
  );
  await expect(start({ FLEET_GATEWAY_KEY: "" })).rejects.toThrow(/needs its key/);
  await expect(start({ FLEET_GATEWAY_CERT: file("none.pem") })).rejects.toThrow(/cannot be read/);
});

test("tokens are not sent to a bus on another machine without TLS", async () => {
  await expect(start({ FLEET_URL: "nats://bus.example:4222" })).rejects.toThrow(/without TLS/);
});

test("mistakes in the file of issuers are all named", async () => {
  writeFileSync(file("wrong.json"), JSON.stringify({ issuers: [{ issuer: "", algorithms: ["HS256"] }] }));
  await expect(start({ FLEET_GATEWAY_ISSUERS: file("wrong.json") })).rejects.toThrow(
    /issuers\.0\.issuer[\s\S]*algorithms/,
  );
});

test("a stop ends the process with code 0, and its log has no token", async () => {
  const token = await tokenOf("observer", "last");
  expect(await status("/caller", { authorization: `Bearer ${token}` })).toBe(200);
  expect(await gateway.terminate()).toBe(0);
  expect(gateway.output()).not.toContain(token);
  expect(gateway.output()).toContain('"caller":"last"');
});
