// TLS of the bus on a real server, with certificates made for the test.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { findNatsServer } from "../../../deploy/local/nats-binary.mjs";
import { connectBus } from "../../../shared/bus/connection.ts";
import { acceptsWithoutCredentials } from "../../../shared/bus/open-access.ts";
import { readsPlainText } from "../../../shared/bus/server-greeting.ts";
import { tlsOf } from "../../../shared/bus/tls-settings.ts";
import { makeAuthority, makeCertificate } from "../../harness/certificates.ts";
import { testLog } from "../../harness/processes/nats.ts";
import { projectRoot } from "../../harness/project-root.ts";

const dir = mkdtempSync(join(tmpdir(), "fleet-tls-"));
const file = (name: string) => join(dir, name);
const servers: ChildProcess[] = [];
let binary: string;

interface Addresses {
  readonly nats: string;
  readonly monitor: string;
}

async function startServer(name: string, more: readonly string[]): Promise<Addresses> {
  const ports = mkdtempSync(join(dir, name));
  const args = ["-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", ports, ...more];
  servers.push(spawn(binary, args, { stdio: "ignore" }));
  const found = await vi.waitFor(() => {
    const name = readdirSync(ports).find((one) => one.endsWith(".ports")) ?? "none";
    return JSON.parse(readFileSync(join(ports, name), "utf8")) as { nats: [string]; monitoring?: [string] };
  }, 20_000);
  return {
    nats: `nats://localhost:${new URL(found.nats[0]).port}`,
    monitor: found.monitoring?.[0] ?? "",
  };
}

const open = (url: string, settings: Parameters<typeof tlsOf>[0]) =>
  connectBus({ url, name: "test", identity: "test", log: testLog, ...tlsOf(settings) });

beforeAll(() => {
  const found = findNatsServer({ root: projectRoot });
  if ("problem" in found) throw new Error(found.problem);
  binary = found.path;
  makeAuthority(dir, "ca");
  makeAuthority(dir, "stranger");
  makeCertificate(dir, "server");
  makeCertificate(dir, "client");
});
afterAll(() => {
  for (const server of servers) server.kill("SIGKILL");
  rmSync(dir, { recursive: true, force: true });
});

const TLS = () => ["--tls", "--tlscert", file("server.pem"), "--tlskey", file("server.key")];

test("a program connects with the authority of the bus, and with no other one", async () => {
  const { nats: url } = await startServer("tls", TLS());
  await (await open(url, { tlsCa: file("ca.pem") })).close();
  await expect(open(url, {})).rejects.toThrow();
  await expect(open(url, { tlsCa: file("stranger.pem") })).rejects.toThrow();
});

test("a program with an authority refuses a bus without TLS", async () => {
  const { nats: url } = await startServer("plain", []);
  await (await open(url, {})).close();
  await expect(open(url, { tlsCa: file("ca.pem") })).rejects.toThrow();
});

test("an address that begins with tls:// refuses a bus without TLS", async () => {
  const url = (await startServer("downgraded", [])).nats.replace("nats://", "tls://");
  await expect(open(url, {})).rejects.toThrow();
  await expect(open(`nats://localhost:1, ${url}`, {})).rejects.toThrow();
});

test("a bus that asks for certificates refuses a program without one", async () => {
  const { nats: url } = await startServer("mutual", [...TLS(), "--tlsverify", "--tlscacert", file("ca.pem")]);
  const client = { tlsCert: file("client.pem"), tlsKey: file("client.key") };
  await (await open(url, { tlsCa: file("ca.pem"), ...client })).close();
  await expect(open(url, { tlsCa: file("ca.pem") })).rejects.toThrow();
});

test("a bus with TLS does not read a message in clear text, one without TLS does, and a silent program is not known", async () => {
  const { nats: secured } = await startServer("secured", TLS());
  expect(await readsPlainText(secured, 5_000)).toBe(false);
  const { nats: plain } = await startServer("open", []);
  expect(await readsPlainText(plain, 5_000)).toBe(true);
  const { nats: guarded } = await startServer("guarded", ["--user", "a", "--pass", "secret"]);
  expect(await readsPlainText(guarded, 5_000)).toBe(true);
  const silent = createServer(() => {}).listen(0, "127.0.0.1");
  await once(silent, "listening");
  expect(await readsPlainText(`nats://127.0.0.1:${(silent.address() as AddressInfo).port}`, 200)).toBe(
    "unknown",
  );
  silent.close();
  expect(await readsPlainText("nats://127.0.0.1:1", 5_000)).toBe("unknown");
  const bus = await open(secured, { tlsCa: file("ca.pem") });
  expect(bus.link).toMatchObject({ encrypted: true, requiresTls: true, loopback: true });
  await bus.close();
});

test("a bus with `no_auth_user` accepts a program without credentials although it asks for them; others refuse it", async () => {
  const accepts = (url: string, tls?: { caFile: string; certFile?: string; keyFile?: string }) =>
    acceptsWithoutCredentials(url, { tls, timeoutMs: 10_000 });
  const tls = { caFile: file("ca.pem") };
  const lax = ["-c", file("lax.conf")];
  writeFileSync(
    file("lax.conf"),
    `accounts { FLEET { users: [{ user: "fleet", password: "secret" }] } }\nno_auth_user: "fleet"\n`,
  );
  const guarded = ["--user", "fleet", "--pass", "secret"];
  expect(await accepts((await startServer("unguarded", [])).nats)).toBe(true);
  expect(await accepts((await startServer("lax", lax)).nats)).toBe(true);
  expect(await accepts((await startServer("lax-tls", [...lax, ...TLS()])).nats, tls)).toBe(true);
  const { nats: refusing } = await startServer("refusing", guarded);
  expect(await accepts(refusing)).toBe(false);
  // A password in the address is not sent.
  expect(await accepts(refusing.replace("//", "//fleet:secret@"))).toBe(false);
  const { nats: secured } = await startServer("refusing-tls", [...guarded, ...TLS()]);
  expect(await accepts(secured, tls)).toBe(false);
  // A certificate is a credential too.
  const mutual = await startServer("mutual-tls", [...TLS(), "--tlsverify", "--tlscacert", file("ca.pem")]);
  const own = { certFile: file("client.pem"), keyFile: file("client.key") };
  expect(await accepts(mutual.nats, { ...tls, ...own })).toBe(false);
  expect(await accepts(secured, { caFile: file("stranger.pem") })).toBe("unknown");
  expect(await accepts("nats://127.0.0.1:1")).toBe("unknown");
});

test("messages that arrive together in several TLS records are handled together", async () => {
  const { nats: url, monitor } = await startServer("records", [...TLS(), "-m", "-1"]);
  const bus = await open(url, { tlsCa: file("ca.pem") });
  const count = 12;
  let received = 0;
  let batches = 0;
  let isInBatch = false;
  await bus.subscribe("burst", () => {
    received += 1;
    if (isInBatch) return;
    isInBatch = true;
    batches += 1;
    // Runs after the microtasks of the callback in which the library parsed these messages.
    process.nextTick(() => {
      isInBatch = false;
    });
  });
  // This process does not read meanwhile, so all messages lie in its socket, in records of at most 16 KB.
  const program = fileURLToPath(new URL("./burst.program.ts", import.meta.url));
  const published = spawnSync(process.execPath, [program, url, file("ca.pem"), monitor, String(count)]);
  expect(published.status, published.stderr.toString()).toBe(0);
  await expect.poll(() => received).toBe(count);
  await bus.close();
  expect(batches).toBe(1);
});
