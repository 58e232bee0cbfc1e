"""How the noise falls: grids, prediction types and samplers; a scheduler class is one combination of them.

betas, spacing, sigmas      grids: the training noise, the timesteps of a run, the sigmas of a run
predictions, noise          what a model predicts; random draws, one per sample
brownian                    noise that is one path through a run
template                    `set_timesteps` and `step` around a scheduler's own grid and formula
scheduling                  SchedulerMixin: config, place in the grid, per-run copies
exchange                    another scheduler for the same model
variance_preserving, sigma_grid, sigma_space, log_snr     the spaces that samplers work in
dpm_solver                  the DPM-Solver family's formulas
ddim, ddpm, pndm, ipndm, unclip, cogvideox                         by the training timestep
euler, heun, kdpm2, lms, dpm_sde, edm, consistency_models          by sigma
dpm_multistep, dpm_singlestep, deis, unipc, sa_solver              by the log signal-to-noise ratio
consistency, flow, flow_lcm                                        distilled models; flow matching
"""

from .cogvideox import CogVideoXDDIMScheduler, CogVideoXDPMScheduler
from .consistency import LCMScheduler, LCMSchedulerOutput, TCDScheduler, TCDSchedulerOutput
from .consistency_models import CMStochasticIterativeScheduler
from .ddim import DDIMInverseScheduler, DDIMScheduler
from .ddpm import DDPMScheduler
from .deis import DEISMultistepScheduler
from .dpm_multistep import DPMSolverMultistepScheduler
from .dpm_sde import DPMSolverSDEScheduler
from .dpm_singlestep import DPMSolverSinglestepScheduler
from .edm import EDMDPMSolverMultistepScheduler, EDMEulerScheduler
from .euler import EulerAncestralDiscreteScheduler, EulerDiscreteScheduler
from .exchange import exchanged
from .flow import FlowMatchEulerDiscreteScheduler, FlowMatchHeunDiscreteScheduler
from .flow_lcm import FlowMatchLCMScheduler
from .helios import HeliosDMDScheduler, HeliosScheduler
from .heun import HeunDiscreteScheduler
from .ipndm import IPNDMScheduler
from .kdpm2 import KDPM2AncestralDiscreteScheduler, KDPM2DiscreteScheduler
from .lms import LMSDiscreteScheduler
from .noise import draw_noise
from .pndm import PNDMScheduler
from .sa_solver import SASolverScheduler
from .scheduling import SchedulerMixin
from .template import SchedulerOutput
from .unclip import UnCLIPScheduler
from .unipc import UniPCMultistepScheduler

__all__ = [
    "CMStochasticIterativeScheduler",
    "CogVideoXDDIMScheduler",
    "CogVideoXDPMScheduler",
    "DDIMInverseScheduler",
    "DDIMScheduler",
    "DDPMScheduler",
    "DEISMultistepScheduler",
    "DPMSolverMultistepScheduler",
    "DPMSolverSDEScheduler",
    "DPMSolverSinglestepScheduler",
    "EDMDPMSolverMultistepScheduler",
    "EDMEulerScheduler",
    "EulerAncestralDiscreteScheduler",
    "EulerDiscreteScheduler",
    "FlowMatchEulerDiscreteScheduler",
    "FlowMatchHeunDiscreteScheduler",
    "FlowMatchLCMScheduler",
    "HeliosDMDScheduler",
    "HeliosScheduler",
    "HeunDiscreteScheduler",
    "IPNDMScheduler",
    "KDPM2AncestralDiscreteScheduler",
    "KDPM2DiscreteScheduler",
    "LCMScheduler",
    "LCMSchedulerOutput",
    "LMSDiscreteScheduler",
    "PNDMScheduler",
    "SASolverScheduler",
    "SchedulerMixin",
    "SchedulerOutput",
    "TCDScheduler",
    "TCDSchedulerOutput",
    "UnCLIPScheduler",
    "UniPCMultistepScheduler",
    "draw_noise",
    "exchanged",
]
