/** The preload of every program of the simulation: `node --import ./test/simulation/time/preload.ts`. */
import { replaceFiles } from "../machine/node-files.ts";
import { replaceProcesses } from "../machine/node-processes.ts";
import { replaceGlobals } from "./globals.ts";
import { setTraps } from "./traps.ts";

replaceGlobals();
setTraps();
replaceFiles();
replaceProcesses();
