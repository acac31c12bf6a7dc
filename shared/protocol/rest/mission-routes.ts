/** The operations on missions. */
import type { CommandOp } from "../subjects.ts";
import { changeRoute, type RestAct, type RestRoute, readRoute } from "./route.ts";

const ofMission = (op: CommandOp): RestAct => ({ kind: "command", op, taskOf: "mission_id" });

export const MISSIONS: readonly RestRoute[] = [
  readRoute("listMissions", "/missions", "missions", "List missions by their ids.", "missions"),
  readRoute("getMission", "/missions/{mission_id}", "missions", "Get a mission.", "mission", "mission"),
  readRoute(
    "listSorties",
    "/missions/{mission_id}/sorties",
    "missions",
    "The sorties of a mission.",
    "sorties",
  ),
  changeRoute(
    "startMission",
    "/missions/{mission_id}/start",
    "missions",
    "Start a mission, as its coordinator.",
    ofMission("mission_start"),
  ),
  changeRoute(
    "updateMission",
    "/missions/{mission_id}/update",
    "missions",
    "Change a mission, or end it.",
    ofMission("mission_update"),
  ),
  changeRoute(
    "addSorties",
    "/missions/{mission_id}/sorties",
    "missions",
    "Divide a mission into sorties.",
    ofMission("sortie_add"),
  ),
  changeRoute(
    "updateSortie",
    "/missions/{mission_id}/sorties/{sortie_id}",
    "missions",
    "Change a sortie.",
    ofMission("sortie_update"),
  ),
  changeRoute(
    "checkpointMission",
    "/missions/{mission_id}/checkpoints",
    "missions",
    "Write a checkpoint of a mission and its sorties.",
    ofMission("mission_checkpoint"),
  ),
  changeRoute(
    "resumeMission",
    "/missions/{mission_id}/resume",
    "missions",
    "Restore the sorties of a mission from a checkpoint.",
    ofMission("mission_resume"),
  ),
  readRoute(
    "previewResumption",
    "/missions/{mission_id}/resume",
    "missions",
    "What a resume would restore.",
    "resume_preview",
  ),
  readRoute(
    "getRecoveryContext",
    "/missions/{mission_id}/recovery-context",
    "missions",
    "How a mission, or one specialist of it, continues, in sentences for a model.",
    "recovery_context",
  ),
  readRoute("listLocks", "/missions/{mission_id}/locks", "missions", "The files that agents hold.", "locks"),
  changeRoute(
    "acquireLock",
    "/missions/{mission_id}/locks",
    "missions",
    "Lock a file, or wait for it.",
    ofMission("lock_acquire"),
  ),
  changeRoute(
    "renewLock",
    "/missions/{mission_id}/locks/renew",
    "missions",
    "Hold a file longer.",
    ofMission("lock_renew"),
  ),
  changeRoute(
    "releaseLock",
    "/missions/{mission_id}/locks/release",
    "missions",
    "Release a file, by force that of another agent.",
    ofMission("lock_release"),
  ),
];
