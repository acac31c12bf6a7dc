/**
 * The names under which this server answers. A page whose name was rebound to this machine sends its own name, and a
 * page of another origin its own origin; both are refused.
 */
import { FleetError } from "../../../shared/protocol/errors.ts";
import { HttpError } from "./problem.ts";

const LOOPBACK = ["127.0.0.1", "localhost", "[::1]"];

export interface HostRules {
  readonly scheme: "http" | "https";
  readonly port: number;
  /** Further names of this server. Empty beyond loopback: every name, because TLS has proven it. */
  readonly names: readonly string[];
  readonly isLoopback: boolean;
}

/** Throws 421 for another host, FORBIDDEN for another origin. */
export type HostCheck = (host: string | null, origin: string | null) => void;

export function hostCheck({ scheme, port, names, isLoopback }: HostRules): HostCheck {
  const usual = port === (scheme === "https" ? 443 : 80);
  const hosts = new Set(
    [...LOOPBACK, ...names].flatMap((name) => [`${name.toLowerCase()}:${port}`, ...(usual ? [name] : [])]),
  );
  const isOpen = !isLoopback && names.length === 0;
  return (host, origin) => {
    const named = host?.toLowerCase() ?? "";
    if (!isOpen && !hosts.has(named))
      throw new HttpError(421, new FleetError("FORBIDDEN", "the `Host` of the request is not this server"));
    if (origin !== null && origin !== `${scheme}://${named}`)
      throw new FleetError("FORBIDDEN", "the `Origin` of the request is not this server");
  };
}
