// The certificate that the standalone fleet makes for its bus: other programs accept it, and it is renewed in time.

import { execFileSync } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { connect as connectTcp } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { startNatsServer } from "../../../services/standalone/nats/server.ts";
import { keepRenewed, openOwnCertificate } from "../../../services/standalone/remote/own-certificate.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { manualClock } from "../../harness/clock.ts";
import { testLog } from "../../harness/processes/nats.ts";
import { projectRoot } from "../../harness/project-root.ts";

const DAY_MS = 86_400_000;
const HOSTS = ["localhost", "127.0.0.1", "::1", "fd00::1:2", "fleet", "a_b.example.org"];
let dir: string;
let home: string;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "fleet-certificate-"));
  home = join(dir, "tls");
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const pem = (name: string) => readFileSync(join(home, name), "utf8");
const certificate = (name: string) => new X509Certificate(pem(name));
const mode = (name: string) => (statSync(join(home, name)).mode & 0o777).toString(8);

/** The strict rules of RFC 5280, for a server with this name. */
function verified(ca: string, host: string, time = Date.now()): string {
  const name = /^[\d.]+$|:/.test(host) ? "-verify_ip" : "-verify_hostname";
  const at = String(Math.floor(time / 1_000));
  const args = ["verify", "-x509_strict", "-purpose", "sslserver", "-attime", at, "-CAfile", ca, name, host];
  return execFileSync("openssl", [...args, join(home, "server.pem")], { encoding: "utf8", stdio: "pipe" });
}

describe("the certificate", () => {
  test("is accepted for its hosts only, and only with its authority", () => {
    const { caFile } = openOwnCertificate(home, HOSTS);
    for (const host of HOSTS) expect(verified(caFile, host)).toMatch(/server.pem: OK/);
    expect(() => verified(caFile, "other.example.org")).toThrow(/hostname mismatch/);
    expect(() => verified(caFile, "127.0.0.2")).toThrow(/IP address mismatch/);
    const stranger = openOwnCertificate(join(dir, "stranger"), HOSTS);
    expect(() => verified(stranger.caFile, "localhost")).toThrow(/verification failed/);
    expect(certificate("server.pem").ca).toBe(false);
    expect(certificate("ca.pem").ca).toBe(true);
  });
  test("is also that of a client for the routes of a cluster, and is replaced when that changes", () => {
    const purpose = (name: string) =>
      execFileSync(
        "openssl",
        ["verify", "-purpose", name, "-CAfile", join(home, "ca.pem"), join(home, "server.pem")],
        {
          encoding: "utf8",
          stdio: "pipe",
        },
      );
    openOwnCertificate(home, HOSTS);
    expect(() => purpose("sslclient")).toThrow(/verification failed/);
    const routes = { forRoutes: true };
    expect(openOwnCertificate(home, HOSTS, Date.now(), routes).isNew).toBe(true);
    expect([purpose("sslclient"), purpose("sslserver")].join("")).toMatch(/OK[\s\S]*OK/);
    expect(openOwnCertificate(home, HOSTS, Date.now(), routes).isNew).toBe(false);
    expect(openOwnCertificate(home, HOSTS).isNew).toBe(true);
  });
  test("has dates after 2049", () => {
    const time = Date.UTC(2055, 5, 1);
    const { caFile } = openOwnCertificate(home, HOSTS, time);
    expect(verified(caFile, "localhost", time)).toMatch(/OK/);
    expect(() => verified(caFile, "localhost", time + 500 * DAY_MS)).toThrow(/certificate has expired/);
    expect(() => verified(caFile, "localhost", time - 5 * DAY_MS)).toThrow(/not yet valid/);
  });
  test("has keys that only the user can read", () => {
    openOwnCertificate(home, HOSTS);
    expect({ ca: mode("ca.key"), server: mode("server.key") }).toEqual({ ca: "600", server: "600" });
  });
});

describe("the next start", () => {
  test("keeps the certificate", () => {
    expect(openOwnCertificate(home, HOSTS).isNew).toBe(true);
    const before = pem("server.pem");
    expect(openOwnCertificate(home, HOSTS).isNew).toBe(false);
    expect(pem("server.pem")).toBe(before);
  });
  test.each([
    ["that ends within 60 days", HOSTS, 340],
    ["without one of the hosts", [...HOSTS, "more.example.org"], 0],
    ["with a further host", HOSTS.slice(1), 0],
  ])("replaces a certificate %s, under the same authority", (_, hosts, days) => {
    openOwnCertificate(home, HOSTS);
    const [serial, ca] = [certificate("server.pem").serialNumber, pem("ca.pem")];
    expect(openOwnCertificate(home, hosts, Date.now() + days * DAY_MS).isNew).toBe(true);
    expect(certificate("server.pem").serialNumber).not.toBe(serial);
    expect(pem("ca.pem")).toBe(ca);
  });
  test("after a kill between the two files makes both again", () => {
    openOwnCertificate(home, HOSTS);
    writeFileSync(join(home, "server.key"), pem("ca.key"));
    const { caFile } = openOwnCertificate(home, HOSTS);
    expect(pem("server.key")).not.toBe(pem("ca.key"));
    expect(verified(caFile, "localhost")).toMatch(/OK/);
  });
  test("renews the authority under its key, so clients with the old one accept the new certificates", () => {
    openOwnCertificate(home, HOSTS);
    const old = join(dir, "old.pem");
    writeFileSync(old, pem("ca.pem"));
    const later = Date.now() + 3_200 * DAY_MS;
    openOwnCertificate(home, HOSTS, later);
    expect(pem("ca.pem")).not.toBe(readFileSync(old, "utf8"));
    for (const ca of [old, join(home, "ca.pem")]) expect(verified(ca, "localhost", later)).toMatch(/OK/);
  });
  test.each([
    ["another key", () => writeFileSync(join(home, "ca.key"), pem("server.key"))],
    ["a lost key", () => rmSync(join(home, "ca.key"))],
    ["half a certificate", () => writeFileSync(join(home, "ca.pem"), pem("ca.pem").slice(0, 100))],
  ])("refuses an authority with %s", (_, damage) => {
    openOwnCertificate(home, HOSTS);
    damage();
    expect(() => openOwnCertificate(home, HOSTS)).toThrow(/authority .* cannot be used/);
  });
});

/** The certificate that a server shows to a new client. */
async function shown(port: number): Promise<string> {
  const socket = connectTcp(port, "127.0.0.1");
  await new Promise((greeted) => socket.once("data", greeted));
  const secure = connectTls({ socket, ca: pem("ca.pem"), servername: "localhost" });
  await new Promise((done, failed) => secure.once("secureConnect", done).once("error", failed));
  const { serialNumber } = secure.getPeerCertificate();
  secure.destroy();
  return serialNumber;
}

test("a running server shows the renewed certificate, and keeps its connections", async () => {
  const days = 340;
  // It ends today, because the programs of this test have the real time.
  const clock = manualClock(Date.now() - days * DAY_MS);
  const own = openOwnCertificate(home, HOSTS, clock.now());
  const listener = { host: "0.0.0.0", tls: { ...own, name: "localhost" } };
  const options = { root: projectRoot, env: process.env, dir: join(dir, "nats"), log: testLog };
  const server = await startNatsServer({ ...options, listener, port: -1 });
  const reload = () => server.kill("SIGHUP");
  const stop = keepRenewed(home, HOSTS, { clock, log: testLog, reload });
  try {
    const program = { url: server.url, name: "test", identity: "test", log: testLog };
    const bus = await connectBus({ ...program, tls: { caFile: own.caFile } });
    const lost = vi.fn();
    bus.onStatus(lost);
    const before = await shown(server.port);
    expect(before).toBe(certificate("server.pem").serialNumber);
    for (let day = 0; day < days; day++) {
      await clock.sleeping();
      await clock.advance(DAY_MS);
    }
    const renewed = certificate("server.pem").serialNumber;
    expect(renewed).not.toBe(before);
    await vi.waitFor(async () => expect(await shown(server.port)).toBe(renewed), 20_000);
    expect(await bus.health({ timeoutMs: 10_000 })).toMatchObject({ ok: true });
    expect(lost).not.toHaveBeenCalled();
    await bus.close();
  } finally {
    await stop();
    await server.stop();
  }
});
