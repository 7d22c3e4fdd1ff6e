// The rules of a legal call of any operator. In: a call. Out: Status in words. Invariant: operands and attributes are checked first, so
// that an operator's own check may read them; an operator that is not listed here follows the op table alone.
#include <algorithm>
#include <iterator>

#include "ops/add.hpp"
#include "ops/argmax.hpp"
#include "ops/attention.hpp"
#include "ops/bands.hpp"
#include "ops/blank.hpp"
#include "ops/collective.hpp"
#include "ops/concat.hpp"
#include "ops/contract.hpp"
#include "ops/convtranspose2d.hpp"
#include "ops/distancescores.hpp"
#include "ops/flatten.hpp"
#include "ops/frombytes.hpp"
#include "ops/groupnorm.hpp"
#include "ops/joinednorm.hpp"
#include "ops/layout.hpp"
#include "ops/linear.hpp"
#include "ops/loss.hpp"
#include "ops/lrn.hpp"
#include "ops/mirror.hpp"
#include "ops/pixelshuffle.hpp"
#include "ops/plumbing.hpp"
#include "ops/pool.hpp"
#include "ops/prelu.hpp"
#include "ops/reflectpad.hpp"
#include "ops/residualnorm.hpp"
#include "ops/response.hpp"
#include "ops/rotate.hpp"
#include "ops/shift.hpp"
#include "ops/spread.hpp"
#include "ops/standardize.hpp"
#include "ops/turnpixels.hpp"
#include "ops/unitheads.hpp"
#include "ops/upsample.hpp"

namespace spillway::ops {
namespace {

struct OwnCheck {
  OpKind kind;
  Status (*check)(const KernelCall&);
};

/// Rules that the table cannot express: windows, channels that add up, labels, groups.
constexpr OwnCheck OWN_CHECKS[] = {
    {OpKind::conv2d, check_conv2d},
    {OpKind::conv2d_relu, check_conv2d},
    {OpKind::conv2d_bwd_data, check_conv2d_bwd_data},
    {OpKind::conv2d_bwd_weights, check_conv2d_bwd_weights},
    {OpKind::conv_transpose2d, check_conv_transpose2d},
    {OpKind::conv_transpose2d_bwd_data, check_conv_transpose2d_bwd_data},
    {OpKind::conv_transpose2d_bwd_weights, check_conv_transpose2d_bwd_weights},
    {OpKind::lay_out, check_lay_out},
    {OpKind::linear, check_linear},
    {OpKind::linear_bwd_data, check_linear_bwd_data},
    {OpKind::linear_bwd_weights, check_linear_bwd_weights},
    {OpKind::flatten, check_flatten},
    {OpKind::flatten_bwd, check_flatten_bwd},
    {OpKind::grad_sum, check_grad_sum},
    {OpKind::from_bytes, check_from_bytes},
    {OpKind::concat, check_concat},
    {OpKind::slice_channels, check_slice_channels},
    {OpKind::take_channels, check_take_channels},
    {OpKind::put_channels, check_put_channels},
    {OpKind::prelu, check_prelu},
    {OpKind::prelu_bwd_data, check_prelu_bwd_data},
    {OpKind::prelu_bwd_weights, check_prelu_bwd_weights},
    {OpKind::shuffle_channels, check_shuffle_channels},
    {OpKind::shuffle_channels_bwd, check_shuffle_channels},
    {OpKind::group_norm_stats, check_group_norm_stats},
    {OpKind::group_norm_apply, check_group_norm_apply},
    {OpKind::group_norm_bwd_reduce, check_group_norm_bwd_reduce},
    {OpKind::group_norm_bwd_data, check_group_norm_bwd_data},
    {OpKind::join_stats, check_join_stats},
    {OpKind::joined_norm, check_joined_norm},
    {OpKind::joined_norm_bwd_reduce, check_joined_norm_bwd_reduce},
    {OpKind::joined_norm_bwd_data, check_joined_norm_bwd_data},
    {OpKind::bn_add_relu_apply, check_bn_add_relu_apply},
    {OpKind::bn_add_relu_bwd_reduce, check_bn_add_relu_bwd_reduce},
    {OpKind::bn_add_relu_bwd_data, check_bn_add_relu_bwd_data},
    {OpKind::lrn, check_lrn},
    {OpKind::lrn_bwd, check_lrn},
    {OpKind::max_pool, check_max_pool},
    {OpKind::max_pool_bwd, check_max_pool_bwd},
    {OpKind::max_pool_places, check_max_pool_places},
    {OpKind::max_pool_places_bwd, check_max_pool_places_bwd},
    {OpKind::avg_pool, check_avg_pool},
    {OpKind::avg_pool_bwd, check_avg_pool_bwd},
    {OpKind::global_avg_pool_bwd, check_global_avg_pool_bwd},
    {OpKind::upsample, check_upsample},
    {OpKind::upsample_bwd, check_upsample_bwd},
    {OpKind::reflect_pad, check_reflect_pad},
    {OpKind::reflect_pad_bwd, check_reflect_pad_bwd},
    {OpKind::attention, check_attention},
    {OpKind::attention_bwd, check_attention_bwd},
    {OpKind::attend, check_attend},
    {OpKind::attend_bwd, check_attend_bwd},
    {OpKind::contract, check_contract},
    {OpKind::contract_bwd, check_contract_bwd},
    {OpKind::square_sums_bwd, check_square_sums_bwd},
    {OpKind::rotate, check_rotate},
    {OpKind::shift, check_shift},
    {OpKind::shift_bwd, check_shift_bwd},
    {OpKind::distance_scores, check_distance_scores},
    {OpKind::distance_scores_bwd, check_distance_scores_bwd},
    {OpKind::unit_heads, check_unit_heads},
    {OpKind::unit_heads_bwd, check_unit_heads_bwd},
    {OpKind::blank, check_blank},
    {OpKind::mirror, check_mirror},
    {OpKind::mirror_bwd, check_mirror_bwd},
    {OpKind::spread, check_spread},
    {OpKind::spread_bwd, check_spread_bwd},
    {OpKind::pixel_shuffle, check_pixel_shuffle},
    {OpKind::pixel_shuffle_bwd, check_pixel_shuffle_bwd},
    {OpKind::pixel_unshuffle, check_pixel_unshuffle},
    {OpKind::pixel_unshuffle_bwd, check_pixel_unshuffle_bwd},
    {OpKind::standardize, check_standardize},
    {OpKind::standardize_bwd, check_standardize_bwd},
    {OpKind::turn_pixels, check_turn_pixels},
    {OpKind::turn_pixels_bwd, check_turn_pixels_bwd},
    {OpKind::softmax_xent, check_softmax_xent},
    {OpKind::softmax_xent_bwd, check_softmax_xent_bwd},
    {OpKind::count_labels, check_count_labels},
    {OpKind::softmax_xent_counted, check_softmax_xent},
    {OpKind::softmax_xent_counted_bwd, check_softmax_xent_bwd},
    {OpKind::count_classes, check_count_classes},
    {OpKind::weigh_classes, check_weigh_classes},
    {OpKind::class_xent, check_class_xent},
    {OpKind::class_xent_bwd, check_class_xent_bwd},
    {OpKind::label_numbers, check_label_numbers},
    {OpKind::dice, check_dice},
    {OpKind::dice_bwd, check_dice_bwd},
    {OpKind::dice_sums, check_dice_sums},
    {OpKind::dice_sums_bwd, check_dice_sums_bwd},
    {OpKind::argmax, check_argmax},
    {OpKind::fill, check_fill},
    {OpKind::copy, check_pair},
    {OpKind::merge_sum, check_pair},
    {OpKind::merge_moments, check_merge_moments},
    {OpKind::all_moments, check_all_moments},
    {OpKind::all_sums, check_all_sums},
    {OpKind::sum_parts, check_parts},
    {OpKind::take_part, check_parts},
    {OpKind::put_part, check_put_part},
    {OpKind::take_rows, check_rows},
    {OpKind::sum_rows, check_rows},
};

}  // namespace

Status check(const KernelCall& c) {
  if (Status s = check_operands(c); !s.ok()) return s;
  const auto own =
      std::find_if(std::begin(OWN_CHECKS), std::end(OWN_CHECKS), [&](const OwnCheck& o) { return uint32_t(o.kind) == c.kind; });
  return own == std::end(OWN_CHECKS) ? check_by_table(c) : own->check(c);
}

}  // namespace spillway::ops
