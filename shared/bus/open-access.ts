/** Whether the servers of the bus accept programs without credentials, found by a connection of its own. */
import { refusesCredentials } from "./bus-errors.ts";
import { type ConnectBusOptions, tlsOptions } from "./connection.ts";
import { connectBatched } from "./transport.ts";

const ATTEMPTS = 5;

/**
 * Connects without credentials and without a certificate, and closes the connection at once. The greeting of a server does not answer this:
 * with `no_auth_user` it asks for credentials, and takes a client without them for that user. "unknown": it neither accepts nor refuses in
 * time, or has no TLS that this program trusts. Never rejects.
 *
 * A server that refuses a program without a certificate resets the connection while the program still writes, which may destroy its alert on
 * the way. So an unknown answer is asked for again.
 */
export async function acceptsWithoutCredentials(
  url: string,
  o: { readonly tls?: ConnectBusOptions["tls"] | undefined; readonly timeoutMs: number },
): Promise<boolean | "unknown"> {
  if (!URL.canParse(url)) return "unknown";
  const endsAt = performance.now() + o.timeoutMs;
  for (let attempt = 1; ; attempt += 1) {
    const timeoutMs = Math.max(1, Math.round(endsAt - performance.now()));
    const answer = await ask(new URL(url), { ...o, timeoutMs });
    if (answer !== "unknown" || attempt === ATTEMPTS || performance.now() >= endsAt) return answer;
  }
}

async function ask(
  { protocol, host, href: url }: URL,
  o: Parameters<typeof acceptsWithoutCredentials>[1],
): Promise<boolean | "unknown"> {
  const { certFile: _certificate, keyFile: _key, ...tls } = o.tls ?? {};
  try {
    const connection = await connectBatched({
      servers: [`${protocol}//${host}`],
      name: "fleet-doctor-without-credentials",
      timeout: o.timeoutMs,
      reconnect: false,
      // Only this server is asked, not one that it names.
      ignoreClusterUpdates: true,
      ...tlsOptions({ url, ...(o.tls !== undefined && { tls }) }),
    });
    await connection.close();
    return true;
  } catch (error) {
    return isRefusal(error) ? false : "unknown";
  }
}

/** The alerts with which TLS 1.3 and 1.2 refuse a program without a certificate. */
const CERTIFICATE_MISSING = /ALERT_(?:CERTIFICATE_REQUIRED|BAD_CERTIFICATE)$/;

function isRefusal(error: unknown): boolean {
  if (refusesCredentials(error)) return true;
  const { code } = error as { code?: unknown };
  return typeof code === "string" && CERTIFICATE_MISSING.test(code);
}
