"""People's networks as ONNX files, for bench/import.ts: torchvision, timm and segmentation-models-pytorch, with random weights.

Run:  python networks.py FOLDER [NAME ...]
Writes each network four times: by the exporter 'legacy' (TorchScript) or 'dynamo' (torch.export), 'untrained' (initial weights, many of them
equal) or 'trained' (all different). An existing file is not written again.
Prints a line of JSON for each: its name, exporter and state, and its file or the error of the exporter.
Large floats are zeros in a sparse file beside it: an import reads only their sizes.
Needs torch, torchvision, timm, segmentation-models-pytorch, onnx, onnxscript and onnx-ir.
"""
import contextlib
import io
import json
import os
import sys
import warnings

warnings.filterwarnings('ignore')

import torch

try:
    import torchvision
except RuntimeError:
    # Beside a torch of the CPU, torchvision may lack its compiled operators. No network here uses them.
    library = torch.library.Library('torchvision', 'DEF')
    for op in ('nms', 'qnms'):
        library.define(f'{op}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor')

import onnx
import onnx_ir
import segmentation_models_pytorch as smp
import timm
import torchvision.models as tv
from onnx import TensorProto

TORCHVISION = '''squeezenet1_1 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large mnasnet1_0 shufflenet_v2_x1_0 efficientnet_b0 efficientnet_b4
efficientnet_v2_s regnet_y_400mf regnet_x_1_6gf regnet_y_3_2gf resnext50_32x4d wide_resnet50_2 resnet18 convnext_tiny convnext_base densenet121
inception_v3 googlenet vgg16_bn swin_t vit_b_16 maxvit_t'''.split()
SEGMENTATION = 'fcn_resnet50 deeplabv3_resnet50 deeplabv3_mobilenet_v3_large lraspp_mobilenet_v3_large'.split()
TIMM = '''resnet50d seresnet50 ecaresnet50d cspdarknet53 hrnet_w18 res2net50_26w_4s repvgg_b0 regnetz_b16 mobilenetv4_conv_small tf_efficientnet_b0
ghostnet_100 convnextv2_tiny inception_next_tiny coatnet_0_rw_224 poolformer_s12 vovnet39a dpn68 mobilevit_s pvt_v2_b0
mobilenetv4_hybrid_medium resnest14d skresnet18 tresnet_m focalnet_tiny_srf hgnetv2_b0 swin_tiny_patch4_window7_224 twins_pcpvt_small
twins_svt_small mixer_s32_224 gmlp_ti16_224 resmlp_12_224 nf_regnet_b0 caformer_s18 poolformerv2_s12 pit_ti_224 levit_128s
tiny_vit_5m_224 efficientformer_l1 shvit_s1 davit_tiny cait_xxs24_224 gc_efficientnetv2_rw_t'''.split()
# Families beside those above, mostly their smallest network: the survey of programs.py.
SURVEY_TORCHVISION = '''alexnet vgg11 squeezenet1_0 mnasnet0_5 shufflenet_v2_x0_5 densenet161 regnet_x_400mf resnext101_32x8d efficientnet_b1
swin_v2_t swin_s vit_b_32 resnet50 efficientnet_v2_m'''.split()
SURVEY_SEGMENTATION = 'fcn_resnet101 deeplabv3_resnet101'.split()
SURVEY_TIMM = '''beit_base_patch16_224 beitv2_base_patch16_224 halonet_h1 eca_botnext26ts_256 eca_halonext26ts lambda_resnet26t sebotnet33ts_256
gcresnext26ts mobileone_s1 gernet_s repvgg_a0 coat_tiny coat_lite_tiny convit_tiny convmixer_768_32 convnext_zepto_rms convnext_atto convnextv2_atto
cpubone_nano crossvit_tiny_240 crossvit_9_dagger_240 csatv2 cs3darknet_focus_s cs3darknet_s cspresnet50 cspnext_tiny davit_small deit_tiny_patch16_224
deit_tiny_distilled_patch16_224 deit3_small_patch16_224 densenetblur121d dla46x_c dla34 dpn48b dpn68b edgenext_xx_small edgenext_small_rw
efficientformer_l3 efficientformerv2_s0 efficientnet_b0_gn efficientnet_blur_b0 efficientnet_es mixnet_s fbnetc_100 spnasnet_100 tinynet_e
efficientvim_m1 efficientvit_b0 efficientvit_l1 efficientvit_m0 eva02_tiny_patch14_224 vit_base_patch16_rope_reg1_gap_256 fasternet_t0 fastvit_t8
fastvit_mci0 focalnet_tiny_lrf gcvit_xxtiny ghostnetv2_100 ghostnetv3_050 hardcorenas_a hgnet_tiny hiera_tiny_224 hieradet_small hrnet_w18_small
iformer_t inception_next_atto inception_resnet_v2 inception_v4 lcnetv2_small levit_conv_128s lowformer_b0 mambaout_femto coatnet_pico_rw_224
coatnet_nano_cc_224 coatnext_nano_rw_224 maxvit_pico_rw_256 maxvit_tiny_tf_224 maxxvitv2_nano_rw_256 maxvit_rmlp_pico_rw_256 convformer_s18
gmixer_12_224 mixer_s16_224 mobilenetv3_small_050 lcnet_050 mobilenetv5_base mobilevit_xxs mobilevitv2_050 mvitv2_tiny nasnetalarge nest_tiny
nest_tiny_jx nextvit_small nf_resnet26 nfnet_f0 eca_nfnet_l0 pit_ti_distilled_224 pnasnet5large pvt_v2_b2_li rdnet_tiny regnetx_002 regnety_002
regnetv_040 regnetz_c16 repghostnet_050 repvit_m1 res2next50 resnest26d resnest50d_1s4x24d resnet10t resnet26t resnetaa50 resnetblur50 resnetrs50
ecaresnet26t seresnext26d_32x4d resnetv2_18 resnetv2_50x1_bit resnetv2_50d_gn rexnet_100 rexnetr_100 selecsls42 legacy_seresnet18
legacy_seresnext26_32x4d legacy_senet154 sequencer2d_s shvit_s2 skresnext50_32x4d starnet_s050 swiftformer_xs swin_s3_tiny_224 swinv2_tiny_window8_256
swinv2_cr_tiny_ns_224 tiny_vit_21m_224 tnt_s_patch16_224 tresnet_v2_l twins_svt_base vgg11_bn visformer_tiny vit_tiny_patch16_224
vit_small_patch14_dinov2 vit_small_patch16_dinov3 vit_base_patch16_clip_224 vit_base_patch16_siglip_224 vit_tiny_r_s16_p8_224
vit_srelpos_small_patch16_224 vit_relpos_small_patch16_224 samvit_base_patch16_224 vitamin_small_224 vit_wee_patch16_reg1_gap_256 vit_medium_patch16_gap_240
volo_d1_224 ese_vovnet19b_dw legacy_xception xception41 xception41p xcit_nano_12_p16_224 xcit_nano_12_p8_224'''.split()
SURVEY_SMP = [('DPT', 'tu-vit_tiny_patch16_224'), ('Segformer', 'resnet34'), ('UPerNet', 'mit_b0')]
SURVEY_SMP += [('Unet', e) for e in ('se_resnet50', 'resnext50_32x4d', 'dpn68', 'vgg11_bn', 'inceptionv4', 'xception', 'mobileone_s0',
                                     'timm-efficientnet-lite0', 'timm-res2net50_26w_4s', 'timm-resnest14d', 'timm-skresnet18', 'tu-convnext_atto',
                                     'tu-mobilenetv3_small_050', 'tu-swin_tiny_patch4_window7_224', 'tu-hrnet_w18_small')]
SMP = [(a, 'resnet34') for a in 'Unet UnetPlusPlus MAnet Linknet FPN PSPNet PAN DeepLabV3 DeepLabV3Plus UPerNet'.split()]
SMP += [('Unet', e) for e in ('efficientnet-b0', 'mobilenet_v2', 'timm-regnety_002', 'densenet121', 'mit_b0')]
SMP += [('Segformer', 'mit_b0')]
MOST_HELD = 1 << 18
EXPORTERS = ('dynamo', 'legacy')
STATES = ('untrained', 'trained')


class OnlyOut(torch.nn.Module):
    """A segmentation network of torchvision without its dictionary."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)['out']


def classifier(name):
    plain = {'init_weights': False, 'aux_logits': False} if name in ('inception_v3', 'googlenet') else {}
    return getattr(tv, name)(weights=None, **plain)


def networks():
    """Name, maker and image size of each network."""
    for n in TORCHVISION:
        yield f'torchvision/{n}', lambda n=n: classifier(n), 299 if n == 'inception_v3' else 224
    for n in SEGMENTATION:
        yield f'torchvision/{n}', lambda n=n: OnlyOut(getattr(tv.segmentation, n)(weights=None, weights_backbone=None)), 256
    for n in TIMM:
        yield f'timm/{n}', lambda n=n: timm.create_model(n, pretrained=False), 224
    for a, e in SMP:
        yield f'smp/{a}-{e}', lambda a=a, e=e: getattr(smp, a)(e, encoder_weights=None, classes=4), 256


def survey():
    """The same of other families."""
    for n in SURVEY_TORCHVISION:
        yield f'torchvision/{n}', lambda n=n: classifier(n), 256 if n == 'swin_v2_t' else 224
    for n in SURVEY_SEGMENTATION:
        yield f'torchvision/{n}', lambda n=n: OnlyOut(getattr(tv.segmentation, n)(weights=None, weights_backbone=None)), 256
    for n in SURVEY_TIMM:
        yield f'timm/{n}', lambda n=n: timm.create_model(n, pretrained=False), timm.models.get_pretrained_cfg(n).input_size[-1]
    for a, e in SURVEY_SMP:
        yield f'smp/{a}-{e}', lambda a=a, e=e: getattr(smp, a)(e, encoder_weights=None, classes=4), 224 if 'vit' in e or 'swin' in e else 256


def trained(net):
    """Makes all weights of the network different."""
    with torch.no_grad():
        for p in [*net.parameters(), *(b for b in net.buffers() if b.is_floating_point())]:
            p.add_(torch.rand_like(p) * 1e-2)


def hollow(model, path):
    """Writes the model without its large floats."""
    folder = os.path.dirname(path)
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and len(tensor.raw_data) > MOST_HELD:
            length = len(tensor.raw_data)
            tensor.ClearField('raw_data')
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (('location', 'zeros.bin'), ('offset', '0'), ('length', str(length))):
                entry = tensor.external_data.add()
                entry.key, entry.value = key, value
    del model.metadata_props[:]
    for node in model.graph.node:
        del node.metadata_props[:]
    with open(path + '.part', 'wb') as f:
        f.write(model.SerializeToString())
    os.replace(path + '.part', path)
    zeros = os.path.join(folder, 'zeros.bin')
    if not os.path.exists(zeros):
        with open(zeros, 'wb') as f:
            f.truncate(1 << 30)


class Network:
    """A network, first untrained, then trained. Its traced program, the slow part of an export, serves both."""

    def __init__(self, make, size):
        torch.manual_seed(0)
        self.net = make().eval()
        self.image = (torch.randn(1, 3, size, size),)
        self.program = None
        self.state = 'untrained'

    def in_state(self, state):
        if state == 'trained' and self.state != state:
            trained(self.net)
        self.state = state

    def legacy(self):
        file = io.BytesIO()
        torch.onnx.export(self.net, self.image, file, input_names=['input'], opset_version=17, dynamo=False)
        return onnx.load_from_string(file.getvalue())

    def dynamo(self):
        if self.program is None:
            self.program = torch.onnx.export(self.net, self.image, input_names=['input'], dynamo=True, optimize=False)
        traced, weights = self.program.model, self.net.state_dict()
        self.program.model = traced.clone()
        try:
            for name, value in self.program.model.graph.initializers.items():
                if name in weights:
                    value.const_value = onnx_ir.tensor(weights[name], name=name)
            self.program.optimize()
            return self.program.model_proto
        finally:
            self.program.model = traced


def main(folder, *names):
    torch.set_num_threads(1)
    # PyTorch's exporters print to the process's output, below Python's. The lines of JSON have their own.
    lines = os.fdopen(os.dup(1), 'w')
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.makedirs(folder, exist_ok=True)
    for name, make, size in networks():
        if names and not any(n in name for n in names):
            continue
        network = None
        for state in STATES:
            for exporter in EXPORTERS:
                path = os.path.join(folder, f"{name.replace('/', '_')}-{exporter}-{state}.onnx")
                line = {'name': name, 'exporter': exporter, 'state': state}
                try:
                    if not os.path.exists(path):
                        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                            network = network or Network(make, size)
                            network.in_state(state)
                            hollow(getattr(network, exporter)(), path)
                    print(json.dumps({**line, 'file': path}), file=lines, flush=True)
                except Exception as e:
                    print(json.dumps({**line, 'error': str(e).split('\n')[0][:200]}), file=lines, flush=True)


if __name__ == '__main__':
    main(*sys.argv[1:])
