/** A stream that cannot be looked into, as the error that a caller of Fleet knows. */
import { BusError } from "../../shared/bus/bus.ts";
import { FleetError } from "../../shared/protocol/errors.ts";

/** Throws UNAVAILABLE, with `message`, where the bus was the reason. */
export async function known<T>(message: string, look: () => Promise<T>): Promise<T> {
  try {
    return await look();
  } catch (error) {
    if (!(error instanceof BusError)) throw error;
    throw new FleetError("UNAVAILABLE", message, { details: { bus: error.kind }, cause: error });
  }
}
