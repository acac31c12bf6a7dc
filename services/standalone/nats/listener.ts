/**
 * The listener of the standalone fleet's bus. On loopback it needs no TLS. Beyond loopback other machines can reach
 * it, so without TLS or without credentials the fleet does not start.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { BlockList, isIP } from "node:net";
import { resolve } from "node:path";
import { exitCodes, StartupError } from "../../../shared/runtime/process/startup.ts";

export interface ListenerSettings {
  readonly natsHost: string;
  readonly natsCert?: string | undefined;
  readonly natsKey?: string | undefined;
  readonly natsName?: string | undefined;
  readonly tlsCa?: string | undefined;
  readonly auth: "on" | "off";
}

export interface ListenerTls {
  /** Absolute paths. */
  readonly certFile: string;
  readonly keyFile: string;
  /** The host name for clients of this machine. The certificate covers it. */
  readonly name: string;
  /** The file with which clients verify the certificate. Absolute. undefined: the certificates of the system. */
  readonly caFile: string | undefined;
}

export interface Listener {
  readonly host: string;
  readonly tls: ListenerTls | undefined;
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8, "ipv4");
LOOPBACK.addAddress("::1", "ipv6");
/** `localhost` reaches a listener with one of these addresses. */
const REACHED_BY_LOCALHOST = new Set(["127.0.0.1", "::1", "0.0.0.0", "::"]);

/** Throws StartupError. */
export function readListener(settings: ListenerSettings): Listener {
  const host = settings.natsHost.replace(/^\[(.*)\]$/, "$1");
  const tls = readTls(host, settings);
  if (!isLoopback(host)) {
    const details = { host };
    if (tls === undefined) {
      const hint =
        "set FLEET_NATS_SERVER_CERT and FLEET_NATS_SERVER_KEY, or leave FLEET_NATS_HOST at 127.0.0.1";
      throw refused("a bus beyond loopback needs TLS", details, hint);
    }
    if (settings.auth === "off") {
      const hint = "remove FLEET_AUTH=off, or leave FLEET_NATS_HOST at 127.0.0.1";
      throw refused("a bus beyond loopback needs credentials", details, hint);
    }
  }
  return { host, tls };
}

/** A name other than `localhost` may have any address, also at a later time. */
export function isLoopback(host: string): boolean {
  const version = isIP(host);
  if (version === 0) return host.toLowerCase() === "localhost";
  return LOOPBACK.check(host, version === 6 ? "ipv6" : "ipv4");
}

/** The address of the listener for clients of this machine. */
export function listenerUrl({ tls }: Listener, url: string, port: number): string {
  return tls === undefined ? url : `tls://${tls.name}:${port}`;
}

function readTls(host: string, settings: ListenerSettings): ListenerTls | undefined {
  const { natsCert, natsKey, natsName, tlsCa } = settings;
  if (natsCert === undefined && natsKey === undefined) return undefined;
  if (natsCert === undefined || natsKey === undefined) {
    const hint = "set FLEET_NATS_SERVER_CERT and FLEET_NATS_SERVER_KEY";
    throw refused("the bus needs both a certificate and its key", {}, hint);
  }
  const [certFile, keyFile] = [resolve(natsCert), resolve(natsKey)];
  const certificate = parsed("FLEET_NATS_SERVER_CERT", certFile, (pem) => new X509Certificate(pem));
  const key = parsed("FLEET_NATS_SERVER_KEY", keyFile, (pem) => createPrivateKey(pem));
  if (!certificate.checkPrivateKey(key)) {
    const hint = "set FLEET_NATS_SERVER_KEY to the key of the certificate";
    throw refused("the key is not that of the bus's certificate", { certFile, keyFile }, hint);
  }
  if (Date.parse(certificate.validTo) <= Date.now()) {
    const details = { certFile, valid_to: certificate.validTo };
    throw refused("the certificate of the bus has expired", details, "renew it");
  }
  const caFile = tlsCa === undefined ? undefined : resolve(tlsCa);
  if (caFile !== undefined) parsed("FLEET_NATS_CA", caFile, (pem) => new X509Certificate(pem));
  return { certFile, keyFile, name: coveredName(host, natsName, certificate), caFile };
}

/** The client library compares the certificate with a host name only, not with an IP address. */
function coveredName(host: string, given: string | undefined, certificate: X509Certificate): string {
  const usual = isIP(host) === 0 ? host : REACHED_BY_LOCALHOST.has(host) ? "localhost" : undefined;
  const name = given ?? usual;
  if (name !== undefined && isIP(name) === 0 && certificate.checkHost(name) !== undefined) return name;
  throw refused(
    "the certificate of the bus does not cover its host name",
    { host, name, names: certificate.subjectAltName },
    "set FLEET_NATS_SERVER_NAME to a host name of this machine that the certificate covers",
  );
}

function parsed<T>(setting: string, path: string, parse: (pem: Buffer) => T): T {
  try {
    return parse(readFileSync(path));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const details = { setting, path, problem: code ?? message };
    throw refused("a file for TLS cannot be used", details, "give a PEM file that this user can read", error);
  }
}

function refused(
  message: string,
  details: Readonly<Record<string, unknown>>,
  hint: string,
  cause?: unknown,
): StartupError {
  return new StartupError(message, { exitCode: exitCodes.config, details, hint, cause });
}
