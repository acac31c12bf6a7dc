/**
 * The listener of the standalone fleet's bus. On loopback it needs no TLS. Beyond loopback other machines can reach
 * it, so without TLS or without credentials the fleet does not start. The certificate is in files of the user, or the fleet makes it.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { isIP } from "node:net";
import { hostname } from "node:os";
import { resolve } from "node:path";
import { isLoopback } from "../../../shared/runtime/loopback.ts";
import { exitCodes, StartupError } from "../../../shared/runtime/process/startup.ts";

export interface ListenerSettings {
  readonly natsHost: string;
  readonly natsCert?: string | undefined;
  readonly natsKey?: string | undefined;
  readonly natsName?: string | undefined;
  readonly natsNames?: readonly string[];
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

/** The listener of a fleet that makes its own certificate, before it is made. */
export interface OwnListener {
  readonly host: string;
  /** The host name for clients of this machine. */
  readonly name: string;
  /** The host names and addresses that the certificate must cover. */
  readonly hosts: readonly string[];
}

/** The value of the setting of the certificate with which the fleet makes its own. */
export const OWN_CERTIFICATE = "auto";
const LOOPBACK_HOSTS = ["localhost", "127.0.0.1", "::1"];
/** Labels of letters, digits and hyphens; an underscore is usual in the names of containers. */
const HOST_NAME =
  /^(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*$/i;
/** `localhost` reaches a listener with one of these addresses. */
const REACHED_BY_LOCALHOST = new Set(["127.0.0.1", "::1", "0.0.0.0", "::"]);

/** Throws StartupError. Not for a fleet that makes its own certificate. */
export function readListener(settings: ListenerSettings): Listener {
  const host = hostOf(settings);
  const tls = readTls(host, settings);
  if (tls === undefined && !isLoopback(host)) {
    const hint =
      "set FLEET_NATS_SERVER_CERT and FLEET_NATS_SERVER_KEY, or FLEET_NATS_SERVER_CERT=auto for a certificate of the fleet's own, or leave FLEET_NATS_HOST at 127.0.0.1";
    throw refused("a bus beyond loopback needs TLS", { host }, hint);
  }
  requireCredentials(host, settings);
  return { host, tls };
}

/** undefined: the settings name a certificate, or none. Throws StartupError. */
export function readOwnListener(settings: ListenerSettings): OwnListener | undefined {
  if (settings.natsCert !== OWN_CERTIFICATE) return undefined;
  const host = hostOf(settings);
  requireCredentials(host, settings);
  if (settings.natsKey !== undefined) {
    const hint = "remove FLEET_NATS_SERVER_KEY, or set FLEET_NATS_SERVER_CERT to the certificate of that key";
    throw refused("the key is not that of the fleet's own certificate", {}, hint);
  }
  const name = settings.natsName ?? usualName(host);
  if (name === undefined || isIP(name) !== 0) {
    const hint = "set FLEET_NATS_SERVER_NAME to a host name of this machine";
    throw refused("the certificate of the bus needs a host name", { host, name }, hint);
  }
  // Listeners for all addresses have no address of their own.
  const given = [name, ...(isIP(host) === 0 || REACHED_BY_LOCALHOST.has(host) ? [] : [host])];
  const further = settings.natsNames ?? [];
  const wrong = [...given, ...further].find((each) => isIP(each) === 0 && !HOST_NAME.test(each));
  if (wrong !== undefined) {
    const hint = "give host names and IP addresses in FLEET_NATS_SERVER_NAME and FLEET_NATS_SERVER_NAMES";
    throw refused("a name for the certificate of the bus is not a host name", { name: wrong }, hint);
  }
  const machine = HOST_NAME.test(hostname()) ? [hostname()] : [];
  return { host, name, hosts: [...new Set([...LOOPBACK_HOSTS, ...machine, ...given, ...further])] };
}

function hostOf({ natsHost }: ListenerSettings): string {
  return natsHost.replace(/^\[(.*)\]$/, "$1");
}

function requireCredentials(host: string, { auth }: ListenerSettings): void {
  if (auth === "on" || isLoopback(host)) return;
  const hint = "remove FLEET_AUTH=off, or leave FLEET_NATS_HOST at 127.0.0.1";
  throw refused("a bus beyond loopback needs credentials", { host }, hint);
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
  const name = given ?? usualName(host);
  if (name !== undefined && isIP(name) === 0 && certificate.checkHost(name) !== undefined) return name;
  throw refused(
    "the certificate of the bus does not cover its host name",
    { host, name, names: certificate.subjectAltName },
    "set FLEET_NATS_SERVER_NAME to a host name of this machine that the certificate covers",
  );
}

function usualName(host: string): string | undefined {
  if (isIP(host) === 0) return host;
  return REACHED_BY_LOCALHOST.has(host) ? "localhost" : undefined;
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
