/** The TLS settings of every program that connects to the bus. Without them the certificates of the system apply. */
import { type ConfigOf, optional, text } from "../runtime/settings/config.ts";
import type { ConnectBusOptions } from "./connection.ts";

export const tlsFields = {
  tlsCa: optional(
    text("FLEET_NATS_CA", {
      description:
        "File with the certificates that may sign the bus's own (PEM); with it, a bus without TLS is refused",
    }),
  ),
  tlsCert: optional(
    text("FLEET_NATS_CERT", { description: "Certificate of this program, if the bus asks for one (PEM)" }),
  ),
  tlsKey: optional(text("FLEET_NATS_KEY", { description: "Key of that certificate (PEM)" })),
} as const;

/** For the options of `connectBus`. */
export function tlsOf({
  tlsCa,
  tlsCert,
  tlsKey,
}: Partial<ConfigOf<typeof tlsFields>>): Pick<ConnectBusOptions, "tls"> {
  if (tlsCa === undefined && tlsCert === undefined) return {};
  return {
    tls: {
      ...(tlsCa !== undefined && { caFile: tlsCa }),
      ...(tlsCert !== undefined && { certFile: tlsCert }),
      ...(tlsKey !== undefined && { keyFile: tlsKey }),
    },
  };
}
