/** The preload of every program of the simulation: `node --import ./test/simulation/time/preload.ts`. */
import { replaceGlobals } from "./globals.ts";
import { setTraps } from "./traps.ts";

replaceGlobals();
setTraps();
